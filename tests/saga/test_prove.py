"""What is in flight is proved to end lawfully under today's code; what is not proved is never said to be."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from eventlib import OutcomeUnknown
from eventlib.model.decider import Decider
from eventlib.model.event import Event
from eventlib.model.handler import Handler
from eventlib.proof.proving import InFlight, InFlightProof, ProofBounds
from eventlib.simulation import Choices
from eventlib.simulation.invariant_monitor import REST
from eventlib.simulation.stage import Stage
from services import shop as the_shop
from services.dispatch.decider import shipments
from services.dispatch.ports import Booked
from services.order.decider import orders
from services.order.events import CancelSubmitted, OrderSubmitted
from services.payment.decider import payments
from services.payment.events import PaymentTaken
from services.payment.ports import Declined
from services.payment.state import Payment
from services.simulation.scenario import HonestCarrier, HonestGateway, ShopScenario
from services.stock.events import StockReserved, StockShipped
from services.stock.shelf import shelves
from tests.saga.running import RunningShop, running_shop

pytestmark = pytest.mark.heavy
BOOKING, CHARGING = ("4", "5"), ("6",)


@pytest.fixture
async def shop(tmp_path: Path) -> AsyncIterator[RunningShop]:
    """Return the shop with orders that have ended, and two whose booking was not answered when the services ended."""
    async with running_shop("memory://", tmp_path) as running:
        async with running.services() as runtime:
            await running.submit("1", "2", "3")
            await runtime.idle()
        running.to_carrier.held = asyncio.Event()
        async with running.services():
            await running.submit(*BOOKING)
            await running.until_true(lambda: running.to_carrier.calls["book"] == 5)
        yield running


@pytest.fixture
async def charging(tmp_path: Path) -> AsyncIterator[RunningShop]:
    """Return the shop with an order whose charge was not answered, and whose customer wants to cancel it."""
    async with running_shop("memory://", tmp_path) as running:
        running.to_gateway.held = asyncio.Event()
        async with running.services():
            await running.submit(*CHARGING)
            await running.until_true(lambda: running.to_gateway.calls["charge"] == 1)
        await running.log.publish(CancelSubmitted(order_id=CHARGING[0]))
        yield running


async def proved(
    shop: RunningShop, bounds: ProofBounds | None = None, scenario: type[ShopScenario] = ShopScenario
) -> InFlightProof:
    found = await InFlight.read(shop.log, Stage(the_shop))
    return await asyncio.to_thread(found.prove, scenario, bounds or ProofBounds())


def changed(
    monkeypatch: pytest.MonkeyPatch, decider: Decider[Any], event: type[Event], call: Callable[..., list[Event]]
) -> None:
    handler = replace(decider.handlers[event], call=call, wants_meta=False)
    monkeypatch.setattr(decider, "handlers", {**decider.handlers, event: handler})


async def test_what_is_in_flight_ends_lawfully(shop: RunningShop) -> None:
    found = await proved(shop)
    assert found.holds
    assert (found.in_flight, found.shapes, found.unlawful, found.open) == (2, 1, [], [])
    (explored,) = found.explored
    assert explored.keys == BOOKING
    assert explored.ends > 1
    assert explored.farthest > 5
    assert found.left_out[0].startswith("1 of 2 sagas were explored, the smallest of each shape")


@pytest.mark.extended
async def test_every_saga_can_be_explored(shop: RunningShop) -> None:
    found = await proved(shop, ProofBounds(sagas=None))
    assert [each.key for each in found.explored] == [*BOOKING]
    assert found.holds


async def test_a_handler_that_fails_on_a_late_answer_is_found_by_the_shortest_story(
    charging: RunningShop, monkeypatch: pytest.MonkeyPatch
) -> None:
    def taken(payment: Payment, _money: PaymentTaken) -> list[Event]:
        if payment.called_off:
            raise KeyError("called off")
        return []

    changed(monkeypatch, payments, PaymentTaken, taken)
    found = await proved(charging)
    assert not found.holds
    (wrong,) = found.unlawful
    assert (wrong.keys, wrong.invariant) == (CHARGING, "no_task_fails")
    assert "KeyError: 'called off'" in wrong.why
    assert wrong.story == (
        "order/6 takes CancelSubmitted 6",
        "dispatch/6 takes OrderCancelRequested 6",
        "payment/6 takes DispatchCancelled 6",
        "ChargeRequested is answered: PaymentTaken",
        "payment/6 takes PaymentTaken 6",
    )


async def test_an_order_that_never_ends_is_found(shop: RunningShop, monkeypatch: pytest.MonkeyPatch) -> None:
    changed(monkeypatch, orders, StockShipped, lambda *_: [])
    changed(monkeypatch, orders, PaymentTaken, lambda *_: [])
    found = await proved(shop)
    (wrong,) = found.unlawful
    assert wrong.invariant in {"sagas_end", "orders_come_to_an_end"}
    assert wrong.keys == BOOKING
    assert wrong.story[0].startswith("DispatchRequested is answered: OrderDispatched")


async def test_an_order_that_is_read_and_never_placed_is_found(
    shop: RunningShop, monkeypatch: pytest.MonkeyPatch
) -> None:
    await shop.submit("7")
    changed(monkeypatch, orders, OrderSubmitted, lambda *_: [])
    (wrong,) = (await proved(shop)).unlawful
    assert (wrong.keys, wrong.invariant) == (("7",), "submitted_orders_are_placed")
    assert wrong.story == ("order/3 takes OrderSubmitted 7",)


async def test_a_circle_is_no_end(shop: RunningShop, monkeypatch: pytest.MonkeyPatch) -> None:
    """A deadline that is due again and again is never explored to the end, and is not said to be."""
    deadline = orders.deadlines["overdue_at"]
    assert deadline.handler is not None
    again = {"order": datetime(2030, 1, 1).astimezone()}

    def due_at(_order: object) -> datetime:
        again["order"] += timedelta(hours=1)
        return again["order"]

    monkeypatch.setattr(deadline, "due_at", due_at)
    monkeypatch.setattr(deadline, "handler", Handler(lambda *_: [], deadline.handler.emits, wants_meta=False))
    found = await proved(shop, ProofBounds(moments=500))
    assert not found.holds
    (left,) = found.open
    assert left.why == "more than 500 moments: allow more with --moments"


async def test_what_the_scenario_cannot_have_answered_is_not_proved(shop: RunningShop) -> None:
    class Declines(HonestGateway):
        async def charge(self, key: str, order_id: str, amount_cents: int, currency: str) -> Declined:
            del key, order_id, amount_cents, currency
            return Declined("never")

    class Poor(ShopScenario):
        def ports(self, choose: Choices) -> Mapping[str, object]:
            return {**super().ports(choose), "gateway": Declines(choose)}

    found = await proved(shop, scenario=Poor)
    assert not found.holds
    (left,) = found.open
    assert left.why == "the scenario's ports never answer PaymentTaken, as was recorded"


async def test_a_question_that_is_never_answered_is_no_end(shop: RunningShop) -> None:
    class Silent(HonestCarrier):
        async def recall(self, key: str) -> Booked:
            raise OutcomeUnknown(key)

    class WithoutRecall(ShopScenario):
        def ports(self, choose: Choices) -> Mapping[str, object]:
            return {**super().ports(choose), "carrier": Silent(choose)}

    (wrong,) = (await proved(shop, scenario=WithoutRecall)).unlawful
    assert wrong.invariant == REST.name
    assert wrong.story == ("DispatchRequested is given up",)


async def test_an_effect_that_is_gone_is_found(shop: RunningShop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shipments, "effects", {})
    (wrong,) = (await proved(shop)).unlawful
    assert wrong.why == "the effect for DispatchRequested is pending, and the current code has none"


@dataclass(frozen=True)
class OddShelf:
    """A shelf whose units have another type than on the log."""

    on_hand: bytes = b""


async def test_a_shared_state_that_cannot_be_read_is_not_proved(
    shop: RunningShop, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = Stage(the_shop)
    found = await InFlight.read(shop.log, stage)
    monkeypatch.setattr(shelves, "state", OddShelf)
    unreadable = await InFlight.read(shop.log, Stage(the_shop))
    assert (await asyncio.to_thread(found.prove, ShopScenario, ProofBounds())).holds
    (left,) = (await asyncio.to_thread(unreadable.prove, ShopScenario, ProofBounds())).open
    assert left.why == "state/shelf/A of stock, which sagas share, cannot be read by the current code"


async def test_what_is_parked_is_retried_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with running_shop("memory://", tmp_path) as running:
        with monkeypatch.context() as broken:
            changed(broken, payments, StockReserved, lambda *_: [1 / 0])
            async with running.services() as runtime:
                await running.submit("7")
                await runtime.idle()
            (wrong,) = (await proved(running)).unlawful
            assert wrong.why.startswith("payment 7 is parked, and a retry does not help: ZeroDivisionError")
        found = await proved(running, ProofBounds(moments=2_000))
        assert found.unlawful == []
        assert found.open[0].why.startswith("more than 2,000 moments"), "it goes on"


async def test_an_empty_log_has_nothing_in_flight(tmp_path: Path) -> None:
    async with running_shop("memory://", tmp_path) as running:
        found = await proved(running)
    assert found.holds
    assert (found.in_flight, found.explored, found.open) == (0, (), [])
