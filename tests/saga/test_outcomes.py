"""Whatever the outside world does, each order ends once, and units and money are where its end says."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from eventlib import RuntimeConfig
from eventlib.runtime.breaker import BreakerState
from services.dispatch.events import DispatchCancelled, DispatchRequested
from services.order.events import OrderCancelled, OrderCancelRequested, OrderCompleted
from services.payment.events import ChargeRequested, ChargeUncertain, RefundRequested
from services.simulation.faults import CarrierFaults, GatewayFaults
from services.stock.events import StockReceived
from tests.saga.running import TOTAL_CENTS, RunningShop, running_shop

MANY = tuple(map(str, range(40)))
NEVER_OPEN = RuntimeConfig(breaker_failures=0, grace_s=0.1)
"""For orders that stay unanswered one by one, while the other side is there."""


@pytest.fixture
async def shop(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[RunningShop]:
    """Return the shop on a log in memory, or where a test's parameter says; its stock is there."""
    url = "memory://" if getattr(request, "param", "memory") == "memory" else f"sqlite:///{tmp_path}/shop.db"
    async with running_shop(url, tmp_path) as running:
        async with running.services() as runtime:
            await runtime.idle()
        assert any(isinstance(event, StockReceived) for _, event in await running.records())
        yield running


# --- the gateway is away, or its answer is


@pytest.mark.parametrize(("landed", "voided_cents"), [(False, 0), (True, TOTAL_CENTS)])
async def test_a_gateway_away_for_longer_than_the_retries_is_uncertain_and_then_voided(
    shop: RunningShop, landed: bool, voided_cents: int
) -> None:
    shop.to_gateway.loses["charge"] = 1 if landed else 0
    shop.to_gateway.is_down = not landed
    async with shop.services() as runtime:
        await shop.submit("1")
        await shop.until_true(lambda: shop.to_gateway.calls["charge"] > 0)
        shop.to_gateway.is_down = True
        await shop.until("1", ChargeUncertain)
        assert shop.to_gateway.calls["charge"] == 5
        await shop.until_true(lambda: shop.to_gateway.calls["void"] > 1)
        assert (await shop.said("1"))["OrderCancelled"] == 0
        shop.to_gateway.is_down = False
        await runtime.idle()
    said = await shop.said("1")
    assert said >= Counter(
        {"ChargeUncertain": 1, "VoidRequested": 1, "StockReleased": 1, "PaymentVoided": 1, "OrderCancelled": 1}
    )
    assert not said.keys() & {"PaymentTaken", "PaymentFailed", "DispatchRequested", "RefundRequested"}
    assert shop.rows("SELECT returned_cents FROM voids") == [(voided_cents,)]
    await shop.check_conserved("1")


async def test_many_orders_wait_for_a_gateway_that_is_away_and_none_becomes_uncertain(shop: RunningShop) -> None:
    shop.to_gateway.is_down = True
    async with shop.services(RuntimeConfig(breaker_failures=10, breaker_pause_s=0.2)) as runtime:
        await shop.submit(*MANY)
        await shop.until_true(lambda: runtime.breakers["gateway"] is BreakerState.OPEN)
        await asyncio.sleep(2)
        assert runtime.breakers["carrier"] is BreakerState.CLOSED
        shop.to_gateway.is_down = False
        await runtime.idle()
        assert runtime.breakers["gateway"] is BreakerState.CLOSED
    for order_id in MANY:
        assert (await shop.said(order_id))["ChargeUncertain"] == 0
    assert shop.rows("SELECT count(*) FROM charges") == [(len(MANY),)]
    await shop.check_conserved(*MANY)


@pytest.mark.parametrize("call", ["charge", "refund"])
async def test_an_answer_lost_after_the_gateway_has_acted_is_asked_for_again(shop: RunningShop, call: str) -> None:
    shop.set_faults(carrier=CarrierFaults(undeliverable=1.0 if call == "refund" else 0.0))
    shop.to_gateway.loses[call] = 3
    async with shop.services() as runtime:
        await shop.submit("1")
        await runtime.idle()
    assert shop.to_gateway.calls[call] == 4
    assert shop.rows("SELECT count(*) FROM charges") == [(1,)]
    assert shop.rows("SELECT count(*) FROM refunds") == [(1 if call == "refund" else 0,)]
    await shop.check_conserved("1")


async def test_a_gateway_that_is_silent_for_some_orders_holds_no_money_of_them(shop: RunningShop) -> None:
    shop.set_faults(GatewayFaults(silent=0.3))
    async with shop.services(NEVER_OPEN) as runtime:
        await shop.submit(*MANY)
        await runtime.idle()
    returned = Counter(cents for (cents,) in shop.rows("SELECT returned_cents FROM voids"))
    assert returned.keys() == {0, TOTAL_CENTS}, "some of the silent charges were made"
    await shop.check_conserved(*MANY)


async def test_calls_that_arrive_twice_act_once(shop: RunningShop) -> None:
    shop.set_faults(GatewayFaults(duplicate=1.0), CarrierFaults(duplicate=1.0, undeliverable=0.5))
    async with shop.services() as runtime:
        await shop.submit(*MANY)
        await runtime.idle()
    assert shop.rows("SELECT count(*) FROM charges") == [(len(MANY),)]
    await shop.check_conserved(*MANY)


@pytest.mark.parametrize("shop", ["memory", "sqlite"], indirect=True)
async def test_an_answer_that_comes_in_two_lives_is_on_the_log_once(shop: RunningShop) -> None:
    shop.to_gateway.held = asyncio.Event()
    async with shop.services():
        await shop.submit(*MANY)
        await shop.until_true(lambda: shop.to_gateway.calls["charge"] == len(MANY))
    # The services ended after every charge was made, and before one answer was heard.
    assert shop.rows("SELECT count(*) FROM charges") == [(len(MANY),)]
    shop.to_gateway.held = None
    async with shop.services() as runtime:
        await runtime.idle()
    assert shop.to_gateway.calls["charge"] == 2 * len(MANY)
    await shop.check_conserved(*MANY)


# --- the carrier is away, or its answer is


@pytest.mark.parametrize("departed", [0.0, 0.5, 1.0])
async def test_a_silent_carrier_is_asked_to_cancel_and_its_answer_decides(shop: RunningShop, departed: float) -> None:
    shop.set_faults(carrier=CarrierFaults(silent=1.0, departed=departed))
    orders = MANY[:12]
    async with shop.services(NEVER_OPEN) as runtime:
        await shop.submit(*orders)
        await runtime.idle()
    ends = Counter[str]()
    for order_id in orders:
        said = await shop.said(order_id)
        ends += said
        if said["DispatchFailed"]:
            assert said >= Counter({"RefundRequested": 1, "PaymentRefunded": 1, "StockReleased": 1})
    acted = shop.rows("SELECT count(*) FROM parcels WHERE outcome = 'booked'")[0][0]
    assert (ends["OrderCompleted"], ends["OrderCancelled"]) == (acted, len(orders) - acted)
    await shop.check_conserved(*orders)


async def test_a_refund_does_not_give_up(shop: RunningShop) -> None:
    shop.set_faults(carrier=CarrierFaults(undeliverable=1.0))
    shop.to_gateway.loses["refund"] = 5
    async with shop.services() as runtime:
        await shop.submit("1")
        await runtime.idle()
    assert shop.to_gateway.calls["refund"] == 6
    await shop.check_conserved("1")


# --- cancelled while an answer is out


@pytest.mark.parametrize("end", ["taken", "declined", "unknown"])
async def test_cancelled_while_the_gateway_is_asked(shop: RunningShop, end: str) -> None:
    shop.set_faults(GatewayFaults(decline=1.0 if end == "declined" else 0.0))
    shop.to_gateway.loses["charge"] = 5 if end == "unknown" else 0
    held = shop.to_gateway.held = asyncio.Event()
    async with shop.services() as runtime:
        await shop.submit("1")
        await shop.until("1", ChargeRequested)
        await shop.cancel("1")
        await shop.until("1", DispatchCancelled)
        assert (await shop.said("1"))["OrderCancelled"] == 0
        held.set()
        await runtime.idle()
    said = await shop.said("1")
    expected = {"taken": "PaymentRefunded", "declined": "PaymentFailed", "unknown": "PaymentVoided"}[end]
    assert said >= Counter({expected: 1, "StockReleased": 1, "OrderCancelled": 1})
    assert said["PaymentWaived"] == said["DispatchRequested"] == 0
    await shop.check_conserved("1")


@pytest.mark.parametrize(("undeliverable", "end"), [(0.0, OrderCompleted), (1.0, OrderCancelled)])
async def test_cancelled_while_the_carrier_is_asked(
    shop: RunningShop, undeliverable: float, end: type[OrderCompleted | OrderCancelled]
) -> None:
    shop.set_faults(carrier=CarrierFaults(undeliverable=undeliverable))
    held = shop.to_carrier.held = asyncio.Event()
    async with shop.services() as runtime:
        await shop.submit("1")
        await shop.until("1", DispatchRequested)
        await shop.cancel("1")
        await shop.until("1", OrderCancelRequested)
        await asyncio.sleep(0.1)
        said = await shop.said("1")
        assert said["CancelRefused"] == said["DispatchCancelled"] == 0, "the decision waits for the carrier"
        held.set()
        await runtime.idle()
    said = await shop.said("1")
    assert said[end.__name__] == 1
    assert said["CancelRefused"] == (end is OrderCompleted)
    await shop.check_conserved("1")


async def test_cancelled_while_a_silent_carrier_is_asked_to_cancel(shop: RunningShop) -> None:
    shop.set_faults(carrier=CarrierFaults(silent=1.0))
    orders = MANY[:8]
    held = shop.to_carrier.held = asyncio.Event()
    async with shop.services(NEVER_OPEN) as runtime:
        await shop.submit(*orders)
        await shop.until_true(lambda: shop.to_carrier.calls["recall"] == len(orders))
        for order_id in orders:
            await shop.cancel(order_id)
            await shop.until(order_id, OrderCancelRequested)
        held.set()
        await runtime.idle()
    await shop.check_conserved(*orders)


async def test_cancelled_while_the_money_is_on_its_way_back(shop: RunningShop) -> None:
    shop.set_faults(carrier=CarrierFaults(undeliverable=1.0))
    async with shop.services() as runtime:
        await shop.submit("1")
        await shop.until("1", DispatchRequested)
        shop.to_gateway.is_down = True
        await shop.until("1", RefundRequested)
        await shop.cancel("1")
        await shop.cancel("1", attempt=2)
        shop.to_gateway.is_down = False
        await runtime.idle()
    await shop.check_conserved("1")


async def test_cancelled_before_it_was_placed_after_it_ended_and_again(shop: RunningShop) -> None:
    async with shop.services() as runtime:
        await shop.cancel("early")
        await runtime.idle()
        await shop.submit("early", "late")
        await runtime.idle()
        await shop.cancel("late")
        await shop.cancel("late", attempt=2)
        await shop.cancel("early", attempt=2)
        await runtime.idle()
    early, late = await shop.said("early"), await shop.said("late")
    assert (early["OrderCancelled"], late["OrderCompleted"]) == (1, 1)
    assert (early["CancelRefused"], late["CancelRefused"]) == (1, 2)
    await shop.check_conserved("early", "late")


@pytest.mark.parametrize("shop", ["memory", "sqlite"], indirect=True)
async def test_everything_goes_wrong_at_once(shop: RunningShop) -> None:
    unreliable = {"timeout": 0.15, "lost": 0.15, "duplicate": 0.2, "silent": 0.1, "delay_s": 0.005}
    shop.set_faults(GatewayFaults(decline=0.1, **unreliable), CarrierFaults(undeliverable=0.1, **unreliable))
    async with shop.services() as runtime:
        await shop.submit(*MANY)
        for order_id in MANY[::2]:
            await asyncio.sleep(0.01)
            await shop.cancel(order_id)
        await runtime.idle()
    await shop.check_conserved(*MANY)
