"""Sagas are found by what they wait for and by what is declared, whatever it is called and wherever it waits."""

from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Never

from eventlib import Choreography, Decider, Event, Runtime, Service, open_log
from eventlib.search import SagaQuery, SagaSearch, Searchable
from eventlib.sql import SqlQuery, ask

BELLS = [f"bell-{number}" for number in range(12)]


class Rung(Event, topic="rings", key=None):
    """A bell was rung, in a tower that nothing keys: each partition has one state."""

    bell: str
    number: int


class Hushed(Event, topic="hushes", key="bell", final=True):
    """It is silent again; its attributes are called as columns of an index are."""

    bell: str
    failure: Annotated[str, Searchable]
    is_told: Annotated[int, Searchable]


@dataclass(frozen=True)
class Tower:
    """How often the bells of a partition were rung."""

    rings: int = 0


towers = Decider("tower", state=Tower, key=None)


@towers.on
def ring(_tower: Tower, rung: Rung) -> list[Hushed]:
    return [Hushed(bell=rung.bell, failure=f"crack {rung.number % 2}", is_told=rung.number % 3)]


@towers.evolve
def rang(tower: Tower, _event: Event) -> Tower:
    return replace(tower, rings=tower.rings + 1)


@towers.deadline
def hushed_at(tower: Tower) -> datetime | None:
    return datetime(2100, 1, 1, tzinfo=UTC) if tower.rings else None


@hushed_at.passed
def hush(_tower: Tower) -> list[Never]:
    return []


app = Choreography("bells", [Service("tower", deciders=[towers])])


async def test_each_partitions_deadline_is_waited_for_and_any_name_is_searched_by(tmp_path: Path) -> None:
    async with open_log(f"sqlite:///{tmp_path}/log.db", app) as log:
        async with Runtime(log) as runtime:
            for number, bell in enumerate(BELLS):
                await log.publish(Rung(bell=bell, number=number))
            await runtime.idle()
        due = (await ask(log, SqlQuery("SELECT count(*) FROM deadlines"))).rows[0][0]
        async with SagaSearch(log) as search:
            assert await search.caught_up(10)
            waiting = await search.page(SagaQuery("waiting_for = 'tower.hushed_at'", limit=100))
            cracked = await search.page(SagaQuery("failure = 'crack 1' and is_told = 0", "saga"))
    assert len(waiting.sagas) == due > 1
    assert [each["saga"] for each in cracked.sagas] == ["bell-3", "bell-9"]
