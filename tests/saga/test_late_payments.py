"""The shop with a gateway and a carrier that answer later: callbacks in any order, twice, late or never; planted bugs are found."""

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from random import Random
from typing import Any

import pytest

from eventlib import Decider, Event, Meta
from eventlib.model.handler import Handler
from eventlib.simulation.scenario import drawn_from
from eventlib.simulation.schedule import InvariantViolated
from eventlib.simulation.search import Case
from eventlib.simulation.stage import Stage
from services import shop
from services.dispatch.decider import cancel, shipments
from services.dispatch.decider import follow as follow_shipment
from services.dispatch.events import (
    BookingAccepted,
    CancelRefused,
    DispatchCancelled,
    OrderDispatched,
    ParcelCollected,
    RecallRequested,
)
from services.dispatch.state import Shipment
from services.dispatch.state import Stage as ShipmentStage
from services.order.decider import orders
from services.order.events import OrderCancelRequested
from services.order.evolve import follow as follow_order
from services.order.state import Money, Order
from services.payment.decider import call_off, follow, payments
from services.payment.events import (
    ChargeAccepted,
    ChargeConfirmed,
    ChargeUncertain,
    PaymentTaken,
    PaymentWaived,
    RefundRequested,
    VoidRequested,
)
from services.payment.state import Payment
from services.payment.state import Stage as PaymentStage
from services.simulation.later import LaterScenario

Plant = Callable[[pytest.MonkeyPatch], None]


def test_callbacks_that_come_twice_late_or_never_break_nothing() -> None:
    assert {"a callback comes twice", "a callback comes days late", "a callback never comes"} <= play(30).keys()


def counts_what_is_accepted_as_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    def settle(payment: Payment, charge: ChargeAccepted) -> list[Event]:
        return [taken(payment, charge.order_id)] if payment.stage is PaymentStage.CHARGING else []

    handle(monkeypatch, payments, ChargeAccepted, settle, PaymentTaken)


def takes_the_money_of_each_callback(monkeypatch: pytest.MonkeyPatch) -> None:
    def settle(payment: Payment, charge: ChargeConfirmed) -> list[Event]:
        return [taken(payment, charge.order_id)] if payment.accepted_at else []

    handle(monkeypatch, payments, ChargeConfirmed, settle, PaymentTaken)


def reads_its_own_event_as_news(monkeypatch: pytest.MonkeyPatch) -> None:
    def read(payment: Payment, event: Event, meta: Meta) -> Payment:
        after = follow(payment, event, meta)
        return replace(after, stage=PaymentStage.TAKEN) if isinstance(event, PaymentTaken) else after

    monkeypatch.setattr(payments, "_apply", read)


def voids_what_is_paid(monkeypatch: pytest.MonkeyPatch) -> None:
    def give_up(payment: Payment, meta: Meta) -> list[Event]:
        return [void(payment, meta.subject)]

    def always(payment: Payment) -> datetime | None:
        return None if payment.stage is PaymentStage.VOIDING else payment.accepted_at

    deadline = payments.deadlines["confirmed_by"]
    monkeypatch.setattr(deadline, "due_at", always)
    monkeypatch.setattr(deadline, "handler", Handler(give_up, (VoidRequested,), wants_meta=True))


def taken(payment: Payment, order_id: str) -> Event:
    return PaymentTaken(
        order_id=order_id,
        amount_cents=payment.amount_cents,
        currency=payment.currency,
        country=payment.country,
        charge_key=payment.charge_key,
    )


def void(payment: Payment, order_id: str) -> Event:
    return VoidRequested(order_id=order_id, charge_key=payment.charge_key, currency=payment.currency, reason="late")


def doubts_what_a_callback_has_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def read(order: Order, event: Event, meta: Meta) -> Order:
        after = follow_order(order, event, meta)
        return replace(after, money=Money.UNCERTAIN) if isinstance(event, ChargeUncertain) else after

    monkeypatch.setattr(orders, "_apply", read)


def counts_what_is_accepted_as_dispatched(monkeypatch: pytest.MonkeyPatch) -> None:
    def settle(shipment: Shipment, booking: BookingAccepted) -> list[Event]:
        is_asked = shipment.stage is ShipmentStage.ASKED
        return [OrderDispatched(order_id=booking.order_id, tracking="P")] if is_asked else []

    handle(monkeypatch, shipments, BookingAccepted, settle, OrderDispatched)


def dispatches_with_each_callback(monkeypatch: pytest.MonkeyPatch) -> None:
    def settle(_shipment: Shipment, booking: ParcelCollected) -> list[Event]:
        return [OrderDispatched(order_id=booking.order_id, tracking=booking.tracking)]

    handle(monkeypatch, shipments, ParcelCollected, settle, OrderDispatched)


def forgets_the_callback_that_came_first(monkeypatch: pytest.MonkeyPatch) -> None:
    def read(shipment: Shipment, event: Event, meta: Meta) -> Shipment:
        after = follow_shipment(shipment, event, meta)
        return replace(after, tracking="") if isinstance(event, BookingAccepted) else after

    monkeypatch.setattr(shipments, "_apply", read)
    monkeypatch.setattr(shipments.deadlines["collected_by"], "due_at", _never)


def waits_for_the_carrier_without_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shipments.deadlines["collected_by"], "due_at", _never)


def recalls_a_booking_that_is_not_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    def decide(shipment: Shipment, wish: OrderCancelRequested) -> list[Any]:
        if shipment.stage is not ShipmentStage.ASKED:
            return list(cancel(shipment, wish))
        return [RecallRequested(order_id=wish.order_id, booking_key=shipment.booking_key, reason=wish.reason)]

    handle(monkeypatch, shipments, OrderCancelRequested, decide, RecallRequested, DispatchCancelled, CancelRefused)


def cancels_what_the_carrier_comes_for(monkeypatch: pytest.MonkeyPatch) -> None:
    def decide(shipment: Shipment, wish: OrderCancelRequested) -> list[Any]:
        is_awaited = shipment.stage is ShipmentStage.ASKED and shipment.accepted_at is not None
        if not is_awaited:
            return list(cancel(shipment, wish))
        return [DispatchCancelled(order_id=wish.order_id, reason=wish.reason)]

    handle(monkeypatch, shipments, OrderCancelRequested, decide, RecallRequested, DispatchCancelled, CancelRefused)


def forgets_the_wish_for_which_it_recalls(monkeypatch: pytest.MonkeyPatch) -> None:
    def read(shipment: Shipment, event: Event, meta: Meta) -> Shipment:
        after = follow_shipment(shipment, event, meta)
        return replace(after, cancel_waits=False) if isinstance(event, RecallRequested) else after

    monkeypatch.setattr(shipments, "_apply", read)


def voids_a_charge_that_is_not_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    def decide(payment: Payment, cancelled: DispatchCancelled) -> list[Any]:
        if payment.stage is not PaymentStage.CHARGING:
            return list(call_off(payment, cancelled))
        return [void(payment, cancelled.order_id)]

    handle(monkeypatch, payments, DispatchCancelled, decide, RefundRequested, PaymentWaived, VoidRequested)


def _never(_state: object) -> datetime | None:
    return None


def handle(
    monkeypatch: pytest.MonkeyPatch,
    decider: Decider[Any],
    event: type[Event],
    handler: Callable[..., Any],
    *emits: type[Event],
) -> None:
    monkeypatch.setitem(decider.handlers, event, Handler(handler, emits, wants_meta=False))


@pytest.mark.parametrize(
    ("bug", "broken"),
    [
        (counts_what_is_accepted_as_taken, "accepted_charges_are_confirmed"),
        (takes_the_money_of_each_callback, "steps_happen_once"),
        (reads_its_own_event_as_news, "steps_happen_once"),
        (voids_what_is_paid, "steps_happen_once"),
        (counts_what_is_accepted_as_dispatched, "accepted_bookings_are_collected"),
        (dispatches_with_each_callback, "steps_happen_once"),
        (forgets_the_callback_that_came_first, "orders_come_to_an_end"),
        (waits_for_the_carrier_without_an_end, "orders_come_to_an_end"),
        (recalls_a_booking_that_is_not_answered, "completed_orders_are_whole"),
        (cancels_what_the_carrier_comes_for, "cancelled_parcels_stay"),
        (forgets_the_wish_for_which_it_recalls, "wishes_are_answered"),
        (voids_a_charge_that_is_not_answered, "steps_happen_once"),
    ],
)
def test_a_planted_bug_is_found(bug: Plant, broken: str, monkeypatch: pytest.MonkeyPatch) -> None:
    bug(monkeypatch)
    with pytest.raises(InvariantViolated) as violated:
        play(300)
    assert violated.value.violation.invariant.name == broken


def test_a_rare_bug_is_found_by_its_seed(monkeypatch: pytest.MonkeyPatch) -> None:
    play(1, 1_843)
    doubts_what_a_callback_has_told(monkeypatch)
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
