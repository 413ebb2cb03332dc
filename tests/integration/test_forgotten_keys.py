"""A key that is forgotten leaves nothing and begins anew, whether its task has run on, or was restarted from the changelog."""

from dataclasses import dataclass
from typing import Never

import pytest

from eventlib import Choreography, Decider, Event, Service, open_log
from eventlib.state.memory import MemoryStores
from tests.handling import handle_all
from tests.integration.reopening import everything


class Opened(Event, topic="visits.opened", key="key"):
    key: str


class Left(Event, topic="visits.opened", key="key"):
    key: str


class Greeted(Event, topic="visits.greeted", key="key", final=True):
    key: str


@dataclass(frozen=True)
class Visit:
    is_there: bool = False


def visits() -> Choreography:
    decider = Decider("visit", state=Visit, key="key")

    @decider.evolve
    def follow(visit: Visit, event: Event) -> Visit | None:
        match event:
            case Opened():
                return Visit(is_there=True)
            case Left():
                return None
            case _:
                return visit

    @decider.on(Opened)
    def greet(_visit: Visit, opened: Opened) -> list[Greeted]:
        return [Greeted(key=opened.key)]

    @decider.on(Left)
    def say_nothing(_visit: Visit, _left: Left) -> list[Never]:
        return []

    return Choreography("visits", [Service("visits", deciders=[decider])], facts=[Opened, Left])


@pytest.mark.parametrize("restarts", [False, True])
async def test_its_count_of_events_begins_anew(restarts: bool) -> None:
    async with open_log("memory://", visits()) as log:
        for event in (Opened(key="1"), Left(key="1"), Opened(key="1")):
            await log.publish(event)
            if restarts:
                await handle_all(log, stores=MemoryStores())
        await handle_all(log, stores=MemoryStores())
        assert [record.sequence for record in await everything(log, "visits.greeted")] == [1, 1]


async def test_an_input_that_forgets_its_key_leaves_a_tombstone_and_one_of_a_key_never_seen_leaves_nothing() -> None:
    async with open_log("memory://", visits()) as log:
        for event in (Opened(key="1"), Left(key="1"), Left(key="2")):
            await log.publish(event)
        await handle_all(log, stores=MemoryStores())
        states = [r for r in await everything(log, "visits.changelog") if (r.key or b"").startswith(b"state/")]
        assert [(r.key, r.value is None) for r in states][-1] == (b"state/visit/1", True)
        assert b"state/visit/2" not in {r.key for r in states}
