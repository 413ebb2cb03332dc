"""Records that are too large beside their value: refused where they are published, parked where a decider emits them."""

from collections.abc import AsyncIterator
from dataclasses import dataclass

import pytest

from eventlib import Choreography, Decider, Event, EventLog, Service, Topic, open_log
from eventlib.errors import ContractError
from eventlib.queries.state import state_of
from eventlib.runtime.parking.parked import parked_facts
from tests.handling import handle_all
from tests.integration.reopening import everything


class Asked(Event, topic=Topic("asked", partitions=1, max_event_bytes=90_000), key="key"):
    key: str
    repeat: int


class Answered(Event, topic=Topic("answered", partitions=1, max_event_bytes=90_000), key="key", final=True):
    key: str


@dataclass(frozen=True)
class Asks:
    times: int = 0


asks: Decider[Asks] = Decider("asks", state=Asks, key="key")


@asks.on(Asked)
def answer(_asks: Asks, asked: Asked) -> list[Answered]:
    if asked.repeat < 0:
        raise ValueError("x" * 70_000_000)
    return [Answered(key=asked.key * asked.repeat)]


@asks.evolve
def evolve(state: Asks, event: Event) -> Asks:
    return Asks(state.times + 1) if isinstance(event, Asked) else state


APP = Choreography("asking", [Service("asking", deciders=[asks])])


@pytest.fixture
async def log() -> AsyncIterator[EventLog]:
    async with open_log("memory://", APP) as opened:
        yield opened


async def settle(log: EventLog) -> list[str]:
    """Let the service handle everything, and return why inputs are parked."""
    await handle_all(log)
    return [parked_facts(record)["reason"] for record in await everything(log, "asking.parked")]


async def test_an_emitted_event_whose_key_is_too_large_parks_its_input_and_others_go_on(log: EventLog) -> None:
    await log.publish_many([Asked(key="k" * 40_000, repeat=2), Asked(key="b", repeat=1)])
    (reason,) = await settle(log)
    assert "Answered for topic 'answered' has" in reason
    assert "the key alone 80,000" in reason
    assert [record.key for record in await everything(log, "answered")] == [b"b"]


async def test_a_large_key_that_fits_is_handled_and_its_state_is_kept(log: EventLog) -> None:
    await log.publish(Asked(key="k" * 30_000, repeat=1))
    assert await settle(log) == []
    assert (await state_of(log, "asks", "k" * 30_000)).state == Asks(1)


async def test_an_event_whose_key_is_too_large_is_refused_where_it_is_published(log: EventLog) -> None:
    with pytest.raises(ContractError, match=r"Asked for topic 'asked' has 21\d,\d+ bytes with its key and headers"):
        await log.publish(Asked(key="k" * 70_000, repeat=1))
    assert await everything(log, "asked") == []


async def test_a_reason_as_long_as_the_changelog_takes_is_shortened(log: EventLog) -> None:
    await log.publish(Asked(key="k", repeat=-1))
    (reason,) = await settle(log)
    assert reason.startswith("ValueError: xxx")
    assert len(reason) < 5_000
