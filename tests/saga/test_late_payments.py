"""The shop with a gateway and a carrier that answer later: callbacks in any order, twice, late or never; planted bugs are found."""

from collections import Counter
from random import Random

import pytest

from eventlib.simulation.scenario import drawn_from
from eventlib.simulation.schedule import InvariantViolated
from eventlib.simulation.search import Case
from eventlib.simulation.stage import Stage
from services import shop
from services.simulation.later import LaterScenario
from tests.saga.mutant import Plant
from tests.saga.planted import written
from tests.saga.wrong_decisions import DISPATCH, PAYMENT


def test_callbacks_that_come_twice_late_or_never_break_nothing() -> None:
    assert {"a callback comes twice", "a callback comes days late", "a callback never comes"} <= play(30).keys()


_REFUSED = "        case CancelRefused():"
_RECALLED = "replace(shipment, stage=Stage.RECALLING, cancel_waits=False)"
_WAITED = "shipment.accepted_at if shipment.stage is Stage.ASKED else None"
BUGS: dict[str, tuple[Plant, str, int]] = {
    "what is accepted counts as taken": (
        written(
            PAYMENT,
            ("payment.accepted_at is None or not payment.is_confirmed:", "payment.accepted_at is None:"),
            ("if payment.stage is Stage.CHARGING and payment.called_off:", "if False:"),
        ),
        "accepted_charges_are_confirmed",
        0,
    ),
    "each callback takes the money": (
        written(PAYMENT, ("if payment.stage is not Stage.CHARGING or payment.accepted_at", "if payment.accepted_at")),
        "steps_happen_once",
        27,
    ),
    "its own event is news": (
        written(PAYMENT, ("stage is Stage.TAKEN and payment.stage is not Stage.CHARGING", "False")),
        "steps_happen_once",
        66,
    ),
    "what is paid is voided": (
        written(
            PAYMENT,
            ("payment.accepted_at if payment.stage is Stage.CHARGING else None", "payment.accepted_at"),
            (
                "accepted_at is None else accepted_at + CONFIRM_WITHIN",
                "payment.stage is Stage.VOIDING else accepted_at",
            ),
        ),
        "steps_happen_once",
        4,
    ),
    "what is accepted counts as dispatched": (
        written(DISPATCH, ("shipment.accepted_at is None or not shipment.tracking:", "shipment.accepted_at is None:")),
        "accepted_bookings_are_collected",
        1,
    ),
    "each callback dispatches": (
        written(
            DISPATCH,
            (
                "_settled(shipment, parcel.order_id)",
                "[OrderDispatched(order_id=parcel.order_id, tracking=parcel.tracking)]",
            ),
        ),
        "steps_happen_once",
        17,
    ),
    "the callback that came first is forgotten": (
        written(
            DISPATCH,
            (
                "replace(shipment, accepted_at=meta.recorded_at)",
                'replace(shipment, accepted_at=meta.recorded_at, tracking="")',
            ),
            (_WAITED, "None"),
        ),
        "orders_come_to_an_end",
        3,
    ),
    "the carrier is waited for without an end": (written(DISPATCH, (_WAITED, "None")), "orders_come_to_an_end", 3),
    "a booking that is not answered is recalled": (
        written(DISPATCH, ("case Stage.ASKED if shipment.accepted_at is not None:", "case Stage.ASKED:")),
        "completed_orders_are_whole",
        32,
    ),
    "what the carrier comes for is cancelled": (
        written(
            DISPATCH,
            (
                "[_recall(shipment, request.order_id, request.reason)]",
                "[DispatchCancelled(order_id=request.order_id, reason=request.reason)]",
            ),
        ),
        "cancelled_parcels_stay",
        9,
    ),
    "the wish for which it recalls is forgotten": (
        written(DISPATCH, (_REFUSED, f"        case RecallRequested():\n            return {_RECALLED}\n{_REFUSED}")),
        "wishes_are_answered",
        50,
    ),
    "a charge that is not answered is voided": (
        written(PAYMENT, ("case Stage.CHARGING if payment.accepted_at is not None:", "case Stage.CHARGING:")),
        "steps_happen_once",
        91,
    ),
}
"""What is planted, the invariant that it breaks, and the first schedule that shows it."""


@pytest.mark.parametrize(("bug", "broken", "seed"), BUGS.values(), ids=BUGS)
def test_a_planted_bug_is_found(bug: Plant, broken: str, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    bug(monkeypatch)
    with pytest.raises(InvariantViolated) as violated:
        play(1, seed)  # what is drawn has changed? The long tests say which schedule shows it now
    assert violated.value.violation.invariant.name == broken


@pytest.mark.slow
@pytest.mark.parametrize(("bug", "broken", "seed"), BUGS.values(), ids=BUGS)
def test_no_schedule_before_shows_a_planted_bug(
    bug: Plant, broken: str, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    del broken  # it is what the first that shows it breaks
    bug(monkeypatch)
    play(seed)


def test_a_rare_bug_is_found_by_its_seed(monkeypatch: pytest.MonkeyPatch) -> None:
    play(1, 1_843)
    doubts = "replace(order, money=Money.UNCERTAIN, reason=reason)"
    written("services/order/evolve.py", (f"{doubts} if order.money is Money.OPEN else order", doubts))(monkeypatch)
    with pytest.raises(InvariantViolated, match="orders_come_to_an_end"):
        play(1, 1_843)


def test_a_pause_whose_changelog_record_is_damaged_is_not_lost() -> None:
    play(1, 2_248)


def test_nothing_is_forgotten_while_an_input_is_damaged_that_may_be_about_it() -> None:
    play(1, 2_746)  # the stock was reserved, which payment read two days after the order had been cancelled


def play(schedules: int, first: int = 0) -> Counter[str]:
    """Play schedules, and return the faults in them. Raises: InvariantViolated."""
    case, faults = Case(Stage(shop), LaterScenario), Counter[str]()
    for seed in range(first, first + schedules):
        schedule = case.schedule(2, drawn_from(Random(seed)))
        schedule.play()
        faults += schedule.world.faults
    return faults
