"""Limits in the simulator: they hold under every fault, and each bug that is planted into them is found."""

import pytest

from eventlib import Choreography, Service
from eventlib.errors import OutcomeUnknown
from eventlib.limits import Limit
from eventlib.runtime.effect_queue import EffectQueue, Ticket, _Kind
from eventlib.runtime.token_bucket import Bound, Share, share
from eventlib.simulation.stage import Stage
from examples.payouts import PayoutScenario, PayoutSubmitted, desk, payouts
from tests.saga.mutant import Plant
from tests.saga.planted import broken_by


def limited(limit: Limit) -> Choreography:
    return Choreography(
        "desk", [Service("payout", deciders=[payouts], limits={"bank": limit})], facts=[PayoutSubmitted]
    )


crowded = limited(Limit(concurrent=8, key="customer_id"))
strict = limited(Limit(per_second=200, burst=8, key="customer_id", each=Limit(per_second=16)))


def who_takes_over_has_saved_up_a_burst(patch: pytest.MonkeyPatch) -> None:
    right = Bound.resize

    def resize(bound: Bound, given: Share, now: float) -> None:
        right(bound, given, now)
        bound._tokens = given.burst  # noqa: SLF001  no other way to plant it

    patch.setattr(Bound, "resize", resize)


def each_process_takes_the_whole_limit(patch: pytest.MonkeyPatch) -> None:
    patch.setattr("eventlib.runtime.effect_queue.share", lambda limits, _partitions: share(limits, 1))


def an_owner_given_up_for_dead_goes_on(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(EffectQueue, "held_until", property(lambda _: lambda: float("inf"), lambda *_: None), raising=False)


def waiting_is_refused(patch: pytest.MonkeyPatch) -> None:
    right = EffectQueue.wait

    def wait(queue: EffectQueue, ticket: Ticket) -> None:
        if queue.waiting:
            raise OutcomeUnknown("another one waits")
        right(queue, ticket)

    patch.setattr(EffectQueue, "wait", wait)


def a_key_keeps_its_turn(patch: pytest.MonkeyPatch) -> None:
    right = EffectQueue._first_of  # noqa: SLF001  no other way to plant it

    def first_of(queue: EffectQueue, kind: _Kind, now: float) -> Ticket | None:
        ticket = right(queue, kind, now)
        if ticket is not None and ticket.key in kind.ring:
            kind.ring.remove(ticket.key)
            kind.ring.appendleft(ticket.key)
        return ticket

    patch.setattr(EffectQueue, "_first_of", first_of)


def a_bulkhead_has_a_hole(patch: pytest.MonkeyPatch) -> None:
    right = Bound.free_at

    def free_at(bound: Bound, now: float) -> float:
        bound.out = 0
        return right(bound, now)

    patch.setattr(Bound, "free_at", free_at)


def a_key_has_no_limit_of_its_own(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(EffectQueue, "_key", lambda _queue, _key, now: now)


MUTANTS: dict[str, tuple[Plant, Choreography, int, str]] = {
    plant.__name__: (plant, choreography, seed, invariant)
    for plant, choreography, seed, invariant in [
        (who_takes_over_has_saved_up_a_burst, desk, 1, "limits_are_kept"),
        (each_process_takes_the_whole_limit, desk, 0, "limits_are_kept"),
        (an_owner_given_up_for_dead_goes_on, desk, 7, "limits_are_kept"),
        (a_bulkhead_has_a_hole, crowded, 5, "limits_are_kept"),
        (a_key_has_no_limit_of_its_own, strict, 0, "limits_are_kept"),
        (waiting_is_refused, desk, 5, "waiting_is_no_attempt"),
        (a_key_keeps_its_turn, desk, 0, "keys_take_turns"),
    ]
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


@pytest.mark.slow
@pytest.mark.parametrize("choreography", [desk, crowded, strict])
def test_limits_hold_in_many_schedules(choreography: Choreography) -> None:
    stage = Stage(choreography)
    assert {broken_by(stage, PayoutScenario, seed) for seed in range(1_000)} == {None}
