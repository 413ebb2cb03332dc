"""Handlers and effects that take their process down, in simulated shops: each is parked, and everything comes to rest."""

from collections.abc import Sequence
from random import Random

import pytest

from eventlib import Choreography
from eventlib.errors import LogUnavailable
from eventlib.log.base import Claim
from eventlib.model.record import Record
from eventlib.runtime.lost_owners import LOST_OWNERS
from eventlib.runtime.records import EFFECT
from eventlib.simulation import Scenario
from eventlib.simulation.log import SimulatedLog
from eventlib.simulation.plan import Fault
from eventlib.simulation.scenario import drawn_from
from eventlib.simulation.schedule import Schedule
from eventlib.simulation.stage import Stage
from services import shop
from services.simulation.scenario import ShopScenario
from tests.saga.simulated_outbox import NOTES, OutboxScenario

CASES: dict[str, tuple[str, Choreography, type[Scenario], int, int]] = {
    "a handler": ("handler", shop, ShopScenario, 3, 11),
    "an effect": ("effect", shop, ShopScenario, 3, 416),
    "an effect that waits at a limit": ("effect", NOTES, OutboxScenario, 1, 199),
}


@pytest.mark.parametrize("case", CASES)
def test_what_takes_its_process_down_alone_is_parked_at_the_third(case: str) -> None:
    what, choreography, scenario, orders, seed = CASES[case]
    schedule = Schedule(Stage(choreography), scenario(), orders, drawn_from(Random(seed)), keep_story=True)
    schedule.play()
    assert schedule.world.faults[Fault.DEADLY.value] == 1
    told = [line.what for line in schedule.story.told()]
    assert any(f"each {what} of" in each for each in told)
    assert sum(each == "takes its process down" for each in told) == 2 + 3  # the first two had more in hand


def test_a_note_that_the_log_refuses_leaves_no_effect_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    append, noted, refused = SimulatedLog.append, set[tuple[int, int]](), set[tuple[int, int]]()

    async def append_late(log: SimulatedLog, records: Sequence[Record], claim: Claim | None = None) -> list[int]:
        if claim is not None and records[0].key == LOST_OWNERS.encode() and records[0].value is not None:
            owner = records[0].partition, claim.epoch
            if owner in noted - refused:  # the second of each owner: the first one is noted before it begins
                refused.add(owner)
                raise LogUnavailable("the log is down")
            noted.add(owner)
        return await append(log, records, claim)

    monkeypatch.setattr(SimulatedLog, "append", append_late)
    schedule = Schedule(Stage(NOTES), OutboxScenario(), 1, drawn_from(Random(199)), keep_story=False)
    schedule.play()
    assert refused
    owners = schedule.world.owners.values()
    assert not [each for owner in owners if owner.alive for each in owner.worker.task.state.committed(EFFECT)]
