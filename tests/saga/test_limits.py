"""Limits in the simulator hold under every fault, and what takes its process down is parked; planted bugs are found."""

from collections.abc import Sequence
from random import Random

import pytest

from eventlib import Choreography, Service
from eventlib.errors import LogUnavailable
from eventlib.limits import Limit
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
from examples.payouts import PayoutScenario, PayoutSubmitted, desk, payouts
from services import shop
from services.simulation.scenario import ShopScenario
from tests.saga.mutant import Plant
from tests.saga.planted import broken_by, written
from tests.saga.simulated_outbox import NOTES, OutboxScenario


def limited(limit: Limit) -> Choreography:
    return Choreography(
        "desk", [Service("payout", deciders=[payouts], limits={"bank": limit})], facts=[PayoutSubmitted]
    )


crowded = limited(Limit(concurrent=8, key="customer_id"))
strict = limited(Limit(per_second=200, burst=8, key="customer_id", each=Limit(per_second=16)))


QUEUE, BUCKET = "eventlib/runtime/effect_queue.py", "eventlib/runtime/effect_queue.py"
REFUSES = """        if self.waiting:
            from eventlib.errors import OutcomeUnknown
            raise OutcomeUnknown("another one waits")
        self.waiting += 1
"""
MUTANTS: dict[str, tuple[Plant, Choreography, int, str]] = {
    "who takes over has saved up a burst": (
        written(BUCKET, ("min(self._tokens, given.burst)", "given.burst")),
        desk,
        1,
        "limits_are_kept",
    ),
    "each process takes the whole limit": (
        written(QUEUE, ("self._owned = frozenset(tasks)", "self._owned, self._partitions = frozenset(tasks), 1")),
        desk,
        0,
        "limits_are_kept",
    ),
    "an owner given up for dead goes on": (
        written(QUEUE, ("if now >= self.held_until():", "if False:"), (" or now >= self.held_until() or", " or")),
        desk,
        7,
        "limits_are_kept",
    ),
    "a bulkhead has a hole": (
        written(BUCKET, ("if self.out >= self._share.concurrent:", "if False:")),
        crowded,
        5,
        "limits_are_kept",
    ),
    "a key has no limit of its own": (
        written(QUEUE, ("if self._each is UNLIMITED:", "if True:")),
        strict,
        0,
        "limits_are_kept",
    ),
    "waiting is refused": (written(QUEUE, ("        self.waiting += 1\n", REFUSES)), desk, 5, "waiting_is_no_attempt"),
    "a key keeps its turn": (
        written(QUEUE, ("kind.ring.append(key)\n            else:", "kind.ring.appendleft(key)\n            else:")),
        desk,
        0,
        "keys_take_turns",
    ),
}


@pytest.mark.parametrize("name", MUTANTS)
def test_a_planted_bug_breaks_its_invariant(name: str) -> None:
    plant, choreography, seed, invariant = MUTANTS[name]
    with pytest.MonkeyPatch.context() as patch:
        plant(patch)
        assert broken_by(Stage(choreography), PayoutScenario, seed) == invariant


@pytest.mark.parametrize(("choreography", "schedules"), [(desk, 20), (crowded, 10), (strict, 10)])
def test_limits_hold_whatever_happens(choreography: Choreography, schedules: int) -> None:
    stage = Stage(choreography)
    assert {broken_by(stage, PayoutScenario, seed) for seed in range(schedules)} == {None}


def test_a_limit_that_was_higher_for_a_while_is_no_violation() -> None:
    assert broken_by(Stage(desk), PayoutScenario, 68) is None
    assert broken_by(Stage(desk), PayoutScenario, 201) is None


def test_a_key_that_its_own_limit_holds_up_lets_others_have_more_turns() -> None:
    assert broken_by(Stage(strict), PayoutScenario, 20) is None


@pytest.mark.parametrize(("choreography", "seed"), [(strict, 707), (crowded, 534)])
def test_an_effect_that_takes_its_process_down_is_parked_also_where_it_waits_at_a_limit(
    choreography: Choreography, seed: int
) -> None:
    schedule = Schedule(Stage(choreography), PayoutScenario(), 1 + seed % 3, drawn_from(Random(seed)), keep_story=True)
    schedule.play()
    assert sum(line.what == "takes its process down" for line in schedule.story.told()) == 2 + 3


@pytest.mark.slow
@pytest.mark.parametrize("choreography", [desk, crowded, strict])
def test_limits_hold_in_many_schedules(choreography: Choreography) -> None:
    stage = Stage(choreography)
    assert {broken_by(stage, PayoutScenario, seed) for seed in range(1_000)} == {None}


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
