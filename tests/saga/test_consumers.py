"""Sinks and webhooks in the simulator: whatever dies, each event comes, in order; and each planted bug is found."""

from collections.abc import Sequence

import pytest
from sqlalchemy.orm import Session

from eventlib.simulation import Choices, SimulatedConsumer
from eventlib.simulation.schedule import Schedule
from eventlib.simulation.stage import Stage
from eventlib.sinks import SimulatedSink, SqlSink
from eventlib.webhooks.simulated import SimulatedSubscriber
from eventlib.webhooks.subscribers import Subscriber
from examples.payouts import PayoutScenario, TransferMade, TransferRequested, desk
from tests.saga.mutant import Plant
from tests.saga.planted import broken_by, written

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


DELIVERING, APPLYING = "eventlib/webhooks/delivering.py", "eventlib/sinks/applying.py"
_RUN = "            await self._run(session, await self._calls(records))\n"
_AT_ONCE = f"            await self._begin(session, records, offsets)\n{_RUN}"
_IN_BETWEEN = "        async with self.database.transaction() as session:\n"
_ADVANCE = "            await self.database.advance(session, offsets, self.fence)\n"
_FAILED = "self._failed(lane[0], answer)\n"
_RETRIED = "            except (RetryableError, WiringError):\n"
_AGAIN = """            except (RetryableError, WiringError) as error:
                if type(error).__name__ == "LogUnavailable":
                    return await self.apply(records, offsets)
"""
_LANE = "self._lanes.setdefault(place, deque())"

MUTANTS: dict[str, tuple[Plant, type[PayoutScenario], int, str]] = {
    "the position moves before the delivery": (
        written(
            DELIVERING,
            ("        new = list[Lane]()", "        await self._commit(offsets)\n        new = list[Lane]()"),
        ),
        WithWebhooks,
        6,
        LOST,
    ),
    "a delivery that waits is not written": (
        written(DELIVERING, ("        parked = {", "        self._fresh.clear()\n        parked = {")),
        WithWebhooks,
        3,
        LOST,
    ),
    "who takes over forgets what is parked": (
        written(DELIVERING, ("self._lane_of(delivery).append(delivery)", "pass")),
        WithWebhooks,
        7,
        LOST,
    ),
    "a retry goes to the end": (
        written(DELIVERING, (_FAILED, f"{_FAILED}                lane.rotate(-1)\n")),
        WithWebhooks,
        35,
        ORDER,
    ),
    "a parked delivery is overtaken": (
        written(
            DELIVERING,
            (f"return {_LANE}", f"lane = {_LANE}\n        return Lane() if lane and lane[0].has_failed else lane"),
        ),
        WithWebhooks,
        14,
        ORDER,
    ),
    "a filter is not asked": (written(DELIVERING, ("if self._subscriber.where:", "if False:")), WithFilter, 0, UNASKED),
    "a filter lets nothing through": (
        written(DELIVERING, ("if event is None or not self._subscriber.wants(event):", "if True:")),
        WithFilter,
        0,
        LOST,
    ),
    "rows before the position": (written(APPLYING, (_AT_ONCE, f"{_RUN}{_IN_BETWEEN}{_ADVANCE}")), WithSink, 0, TWICE),
    "a zombie has its successor's fence": (
        written("eventlib.sinks.applying.py", ("token_hex(8)", '"the same"')),
        WithSink,
        97,
        TWICE,
    ),
    "a lost answer is a failure": (written(APPLYING, (_RETRIED, _AGAIN)), WithSink, 5, TWICE),
    "rows after the position": (written(APPLYING, (_AT_ONCE, f"{_ADVANCE}{_IN_BETWEEN}{_RUN}")), WithSink, 5, LOST),
    "a parked event is overtaken": (
        written(
            APPLYING,
            ("return None if record.key is None else (record.topic, escaped(text_of(record.key)))", "return None"),
        ),
        WithSink,
        131,
        ORDER,
    ),
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
