"""Sinks and webhooks in the simulator: whatever dies, each event comes, in order; and each planted bug is found."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from sqlalchemy.orm import Session

from eventlib import EventLog
from eventlib.errors import LogUnavailable
from eventlib.log.base import TopicPartition
from eventlib.model.record import Record
from eventlib.simulation import Choices, SimulatedConsumer
from eventlib.simulation.schedule import Schedule
from eventlib.simulation.stage import Stage
from eventlib.sinks import SimulatedSink, SqlSink
from eventlib.sinks.applying import Applier
from eventlib.webhooks.delivering import Delivering, Lane
from eventlib.webhooks.ledger import Delivery
from eventlib.webhooks.simulated import SimulatedSubscriber
from eventlib.webhooks.subscribers import Subscriber
from examples.payouts import PayoutScenario, TransferMade, TransferRequested, desk
from tests.saga.mutant import Plant
from tests.saga.planted import broken_by

LOST, ORDER, TWICE = "events_reach_consumers", "consumers_get_keys_in_order", "sinks_count_once"
UNASKED = "consumers_get_what_they_ask_for"


def subscriber(mode: str) -> Subscriber:
    return Subscriber.model_validate(
        {
            "name": mode,
            "url": "https://example.com",
            "events": ["TransferRequested", "TransferMade"],
            "secrets": ["env:NONE"],
            "mode": mode,
            "attempts": 1 if mode == "batch" else 3,
            "retry_s": 0.05,
        }
    )


reports = SqlSink("reports", desk, from_now=True)


@reports.on
def count(event: TransferRequested | TransferMade, session: Session) -> None:
    raise AssertionError(f"no SQL is executed for {event} on {session}")


class WithWebhooks(PayoutScenario):
    def consumers(self) -> Sequence[SimulatedConsumer]:
        return [SimulatedSubscriber(subscriber(mode), desk) for mode in ("structured", "batch")]


class WithFilter(PayoutScenario):
    def consumers(self) -> Sequence[SimulatedConsumer]:
        of_one = subscriber("structured").model_copy(update={"where": {"customer_id": "small 1"}})
        return [SimulatedSubscriber(of_one, desk)]


class WithSink(PayoutScenario):
    def consumers(self) -> Sequence[SimulatedConsumer]:
        return [SimulatedSink(reports)]


def the_position_moves_before_the_delivery(patch: pytest.MonkeyPatch) -> None:
    right = Delivering.apply

    async def apply(work: Delivering, records: Sequence[Record], offsets: Mapping[TopicPartition, int]) -> None:
        await work._commit(offsets)  # noqa: SLF001  no other way to plant it, here and below
        await right(work, records, offsets)

    patch.setattr(Delivering, "apply", apply)


def a_delivery_that_waits_is_not_written(patch: pytest.MonkeyPatch) -> None:
    right = Delivering._commit  # noqa: SLF001

    async def commit(work: Delivering, offsets: Mapping[TopicPartition, int]) -> None:
        work._fresh.clear()  # noqa: SLF001
        await right(work, offsets)

    patch.setattr(Delivering, "_commit", commit)


def a_retry_goes_to_the_end(patch: pytest.MonkeyPatch) -> None:
    right = Delivering._run  # noqa: SLF001

    async def run(work: Delivering, lane: Lane) -> None:
        await right(work, lane)
        if lane and lane[0].error is not None:
            lane.rotate(-1)

    patch.setattr(Delivering, "_run", run)


def a_parked_delivery_is_overtaken(patch: pytest.MonkeyPatch) -> None:
    right = Delivering._lane_of  # noqa: SLF001

    def lane_of(work: Delivering, delivery: Delivery) -> Lane:
        lane = right(work, delivery)
        return Lane() if lane and lane[0].has_failed else lane

    patch.setattr(Delivering, "_lane_of", lane_of)


def who_takes_over_forgets_what_is_parked(patch: pytest.MonkeyPatch) -> None:
    right = Delivering.take_over

    async def take_over(work: Delivering, begins: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        positions = await right(work, begins)
        work._lanes.clear()  # noqa: SLF001
        return positions

    patch.setattr(Delivering, "take_over", take_over)


def filtering(patch: pytest.MonkeyPatch, where: Mapping[str, str]) -> None:
    right = Delivering.__init__

    def begun(work: Delivering, log: EventLog, subscriber: Subscriber, *others: Any) -> None:
        right(work, log, subscriber.model_copy(update={"where": where}), *others)

    patch.setattr(Delivering, "__init__", begun)


def a_filter_is_not_asked(patch: pytest.MonkeyPatch) -> None:
    filtering(patch, {})


def a_filter_lets_too_little_through(patch: pytest.MonkeyPatch) -> None:
    filtering(patch, {"customer_id": "small 2"})


def rows_before_the_position(patch: pytest.MonkeyPatch) -> None:
    async def apply_all(work: Applier, records: Sequence[Record], offsets: Mapping[TopicPartition, int]) -> None:
        database, fence = work._database, work._fence  # noqa: SLF001
        async with database.transaction() as session:
            await work._run(session, await work._calls(records))  # noqa: SLF001
        async with database.transaction() as session:
            await database.advance(session, offsets, fence)

    patch.setattr(Applier, "_all", apply_all)


def rows_after_the_position(patch: pytest.MonkeyPatch) -> None:
    async def apply_all(work: Applier, records: Sequence[Record], offsets: Mapping[TopicPartition, int]) -> None:
        database, fence = work._database, work._fence  # noqa: SLF001
        async with database.transaction() as session:
            await database.advance(session, offsets, fence)
        async with database.transaction() as session:
            await work._run(session, await work._calls(records))  # noqa: SLF001

    patch.setattr(Applier, "_all", apply_all)


def a_zombie_has_its_successors_fence(patch: pytest.MonkeyPatch) -> None:
    patch.setattr("eventlib.sinks.running.token_hex", lambda _: "the same")


def a_lost_answer_is_a_failure(patch: pytest.MonkeyPatch) -> None:
    right = Applier.apply

    async def apply(work: Applier, records: Sequence[Record], offsets: Mapping[TopicPartition, int]) -> None:
        try:
            await right(work, records, offsets)
        except LogUnavailable:
            await right(work, records, offsets)

    patch.setattr(Applier, "apply", apply)


def a_parked_event_is_overtaken(patch: pytest.MonkeyPatch) -> None:
    patch.setattr("eventlib.sinks.applying._place", lambda _record: None)


MUTANTS: dict[str, tuple[Plant, type[PayoutScenario], int, str]] = {
    plant.__name__: (plant, scenario, seed, invariant)
    for plant, scenario, seed, invariant in [
        (the_position_moves_before_the_delivery, WithWebhooks, 6, LOST),
        (a_delivery_that_waits_is_not_written, WithWebhooks, 3, LOST),
        (who_takes_over_forgets_what_is_parked, WithWebhooks, 7, LOST),
        (a_retry_goes_to_the_end, WithWebhooks, 35, ORDER),
        (a_parked_delivery_is_overtaken, WithWebhooks, 14, ORDER),
        (a_filter_is_not_asked, WithFilter, 0, UNASKED),
        (a_filter_lets_too_little_through, WithFilter, 0, LOST),
        (rows_before_the_position, WithSink, 0, TWICE),
        (a_zombie_has_its_successors_fence, WithSink, 97, TWICE),
        (a_lost_answer_is_a_failure, WithSink, 5, TWICE),
        (rows_after_the_position, WithSink, 5, LOST),
        (a_parked_event_is_overtaken, WithSink, 131, ORDER),
    ]
}


@pytest.mark.parametrize("name", MUTANTS)
def test_a_planted_bug_breaks_its_invariant(name: str) -> None:
    plant, scenario, seed, invariant = MUTANTS[name]
    with pytest.MonkeyPatch.context() as patch:
        plant(patch)
        assert broken_by(Stage(desk), scenario, seed) == invariant


class NoMoreChoices(BaseException): ...


def test_a_search_that_has_no_more_choices_ends_the_schedule() -> None:
    def pick(what: str, _options: int) -> int:
        if what.startswith("reports:"):
            raise NoMoreChoices
        return 0

    with pytest.raises(NoMoreChoices):
        Schedule(Stage(desk), WithSink(), 1, Choices(pick), keep_story=False).play()


@pytest.mark.parametrize("scenario", [WithWebhooks, WithFilter, WithSink])
def test_all_come_whatever_happens(scenario: type[PayoutScenario]) -> None:
    stage = Stage(desk)
    assert {broken_by(stage, scenario, seed) for seed in range(15)} == {None}


@pytest.mark.slow
@pytest.mark.parametrize("scenario", [WithWebhooks, WithFilter, WithSink])
def test_all_come_in_many_schedules(scenario: type[PayoutScenario]) -> None:
    stage = Stage(desk)
    assert {broken_by(stage, scenario, seed) for seed in range(1_000)} == {None}
