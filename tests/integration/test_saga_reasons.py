"""Why a saga has ended, or goes wrong: SQL and the search of sagas give the same reason, whatever its events tell."""

from dataclasses import dataclass
from pathlib import Path

from eventlib import Choreography, Decider, Event, Runtime, Service, open_log
from eventlib.search import SagaQuery, SagaSearch
from eventlib.sql import SqlQuery, ask


class Asked(Event, topic="asks", key="ask", request=True):
    """What is to happen, in this order."""

    ask: str
    steps: tuple[str, ...]


class Taken(Event, topic="answers", key="ask"):
    """It is begun."""

    ask: str


class Missed(Event, topic="answers", key="ask", failure=True):
    """A failure that gives no reason."""

    ask: str


class Refused(Event, topic="answers", key="ask", failure=True):
    """A failure with its reason, which may be empty."""

    ask: str
    reason: str


class GivenUp(Event, topic="answers", key="ask", final=True, reverses=Taken):
    """An end that undoes, and gives no reason."""

    ask: str


class Done(Event, topic="answers", key="ask", final=True):
    """A good end."""

    ask: str


@dataclass(frozen=True, slots=True)
class Nothing:
    """No state."""


asks = Decider("ask", state=Nothing, key="ask")
Step = Taken | Missed | Refused | GivenUp | Done


@asks.on
def answer(_: Nothing, asked: Asked) -> list[Step]:
    made: dict[str, Step] = {
        "missed": Missed(ask=asked.ask),
        "refused": Refused(ask=asked.ask, reason="no room"),
        "empty": Refused(ask=asked.ask, reason=""),
        "given up": GivenUp(ask=asked.ask),
        "done": Done(ask=asked.ask),
    }
    return [Taken(ask=asked.ask), *(made[step] for step in asked.steps)]


app = Choreography("asks", [Service("desk", deciders=[asks])])

REASONS = {
    (): None,
    ("missed",): "missed",
    ("refused",): "no room",
    ("empty",): "",
    ("missed", "refused"): "missed",
    ("refused", "missed", "done"): None,
    ("refused", "given up"): "no room",
    ("missed", "given up"): "missed",
    ("given up",): None,
}


async def test_every_view_of_a_saga_gives_the_same_reason(tmp_path: Path) -> None:
    async with open_log(f"sqlite:///{tmp_path}/log.db", app) as log:
        async with Runtime(log) as runtime:
            for steps in REASONS:
                await log.publish(Asked(ask="/".join(steps) or "-", steps=steps))
            await runtime.idle()
        rows = (await ask(log, SqlQuery("SELECT saga, reason FROM sagas"))).rows
        async with SagaSearch(log, path=tmp_path / "sagas.db") as search:
            assert await search.caught_up(10)
            page = await search.page(SagaQuery("", "saga", 100))
    wanted = {"/".join(steps) or "-": reason for steps, reason in REASONS.items()}
    assert {row[0]: row[1] for row in rows} == wanted
    assert {each["saga"]: each["reason"] for each in page.sagas} == wanted
