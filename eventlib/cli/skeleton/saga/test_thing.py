"""The saga: each decision by itself, and the whole of it over HTTP, with a bank in the same process."""

import asyncio

import httpx
from eventlib import Runtime, open_log
from eventlib.testing import client_of, given

from .api import create_app
from .app import app
from .bank import LIMIT_CENTS, make_bank
from .decider import orders
from .events import (
    ChargeRequested,
    OrderCharged,
    OrderCompleted,
    OrderConfirmed,
    OrderRequested,
    RefundRequested,
)

REQUEST = OrderRequested(order_id="1", amount_cents=500)
CHARGED = OrderCharged(order_id="1", charge_key="k")
CONFIRMED = OrderConfirmed(order_id="1")
COMPLETED = OrderCompleted(order_id="1")


def test_a_request_asks_for_the_charge_once() -> None:
    """The same request again asks for nothing."""
    charge = ChargeRequested(order_id="1", amount_cents=500)
    given(orders).when(REQUEST, REQUEST).then(charge)


def test_it_is_complete_when_it_is_charged_and_confirmed_in_either_order() -> None:
    """A confirmation may overtake the bank's answer."""
    given(orders, CHARGED).when(CONFIRMED).then(COMPLETED)
    given(orders, CONFIRMED).when(CHARGED).then(COMPLETED)


def test_what_is_not_confirmed_in_time_is_paid_back() -> None:
    """The deadline requests the compensation, and a late confirmation changes nothing."""
    refund = RefundRequested(order_id="1", charge_key="k")
    late = given(orders, REQUEST, CHARGED).when_passed("confirm_by").then(refund)
    late.when(CONFIRMED).then()


def test_over_http_a_customer_pays_and_confirms() -> None:
    """One is completed, and one over the bank's limit is declined."""
    asyncio.run(_pay_and_confirm())


async def _pay_and_confirm() -> None:
    transport = httpx.ASGITransport(make_bank())
    async with (
        httpx.AsyncClient(transport=transport, base_url="http://bank/") as bank,
        open_log("memory://", app) as log,
        Runtime(log, ports={"bank": bank}) as runtime,
        client_of(create_app(log)) as client,
    ):
        paid, declined = [
            (await client.post("orders", json={"amount_cents": cents})).json()["order_id"]
            for cents in (LIMIT_CENTS, LIMIT_CENTS + 1)
        ]
        (await client.post(f"orders/{paid}/confirmation")).raise_for_status()
        await runtime.idle()
        stages = [(await client.get(f"orders/{each}")).json()["stage"] for each in (paid, declined)]
        assert stages == ["completed", "declined"]
