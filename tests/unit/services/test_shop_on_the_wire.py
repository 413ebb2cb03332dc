"""Every event and every state of the shop survives the wire."""

from dataclasses import replace
from enum import StrEnum

import pytest

from eventlib.codec.wire_format import FramedCodec
from eventlib.log.memory import MemoryLog
from eventlib.model.event import Event, contract_of
from eventlib.testing import given
from services import shop
from services.dispatch import state as dispatch_state
from services.dispatch.decider import shipments
from services.order.decider import orders
from services.order.state import Cancel, Money, Parcel, Status, Stock
from services.payment import state as payment_state
from services.payment.decider import payments
from services.stock.reservation import reservations
from tests.unit.services import telling
from tests.unit.services.test_large_orders import large_order

TOLD = [value for value in vars(telling).values() if isinstance(value, Event)]
STATES = [
    given(orders, telling.CANCEL_SUBMITTED).state,
    given(orders, telling.SUBMITTED, telling.PLACED, telling.TAKEN, telling.DISPATCHED).state,
    given(orders, telling.SUBMITTED, telling.PLACED, telling.REJECTED, telling.cancelled("out_of_stock")).state,
    given(reservations, telling.PLACED, telling.A_RESERVED, telling.B_REFUSED).state,
    given(payments, telling.RESERVED, telling.CHARGE, telling.COMPLETED).state,
    given(shipments, telling.TAKEN, telling.DISPATCH, telling.CANCEL_REQUESTED).state,
    *(decider.initial for decider in shop.deciders),
]


async def codec() -> FramedCodec:
    made = FramedCodec(MemoryLog())
    await made.prepare((contract_of(event).topic.name, event) for event in shop.events)
    await made.prepare((f"{shop.service_of(d).name}.changelog", d.state) for d in shop.deciders)
    return made


@pytest.mark.parametrize("value", [*TOLD, *STATES], ids=lambda value: type(value).__name__)
async def test_it_comes_back_as_it_was(value: object) -> None:
    wire = await codec()
    assert wire.decode(type(value), wire.encode(value)) == value


async def test_a_reservation_grows_with_what_it_holds_and_is_small_when_it_has_closed() -> None:
    wire = await codec()
    held = given(reservations, *large_order(1_114)).state
    assert len(wire.encode(held)) < 12 * 1_114
    assert len(wire.encode(replace(held, held=()))) < 60


@pytest.mark.parametrize("kind", [Stock, Money, Parcel, Cancel, Status, payment_state.Stage, dispatch_state.Stage])
def test_what_stands_in_states_on_the_log_is_the_name_in_small_letters(kind: type[StrEnum]) -> None:
    assert [each.value for each in kind] == [each.name.lower() for each in kind]
