"""What becomes of parcels after the shop's orders have ended: reports that come early, twice or never credit an order once; planted bugs do not."""

from collections.abc import Callable
from dataclasses import replace
from random import Random

import pytest

from eventlib import Event, Meta
from eventlib.simulation.scenario import drawn_from
from eventlib.simulation.schedule import InvariantViolated
from eventlib.simulation.search import Case
from eventlib.simulation.stage import Stage
from examples.parcels import CreditGranted, Parcel, ParcelDelivered, ParcelScenario, app, follow, parcels
from services.order.events import OrderCompleted

Evolve = Callable[[Parcel, Event, Meta], Parcel]


def play(schedules: int) -> None:
    """Play schedules. Raises: InvariantViolated."""
    case = Case(Stage(app), ParcelScenario)
    for seed in range(schedules):
        case.schedule(2, drawn_from(Random(seed))).play()


def test_reports_that_come_early_twice_or_never_break_nothing() -> None:
    play(20)


def credits_again(parcel: Parcel, event: Event, meta: Meta) -> Parcel:
    after = follow(parcel, event, meta)
    return replace(after, is_credited=False) if isinstance(event, CreditGranted) else after


def waits_again_after_its_credit(parcel: Parcel, event: Event, meta: Meta) -> Parcel:
    after = follow(parcel, event, meta)
    is_over = isinstance(event, CreditGranted | ParcelDelivered)
    return replace(after, is_credited=False, report="") if is_over else after


def takes_another_amount(parcel: Parcel, event: Event, meta: Meta) -> Parcel:
    after = follow(parcel, event, meta)
    return replace(after, amount_cents=after.amount_cents + 1) if isinstance(event, OrderCompleted) else after


@pytest.mark.heavy
@pytest.mark.parametrize("bug", [credits_again, waits_again_after_its_credit, takes_another_amount])
def test_a_planted_bug_is_found(bug: Evolve, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parcels, "_apply", bug)
    with pytest.raises(InvariantViolated) as violated:
        play(60)
    assert violated.value.violation.invariant.name == "nobody_is_credited_more_than_the_order_has_cost"
