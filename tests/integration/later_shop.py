"""The shop with a gateway and a carrier at an address that call back, over real sockets."""

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import httpx
from pydantic import AnyHttpUrl, SecretStr

from eventlib import Event
from eventlib.webhooks import STANDARD_WEBHOOKS, SigningSecret
from services.dispatch.callbacks import PATH as CARRIER
from services.order.api import create_app
from services.outside import open_ports
from services.payment.callbacks import PATH as GATEWAY
from services.settings import ShopSettings
from services.simulation.ledger import Ledger
from services.simulation.server import make_app
from services.simulation.simulators import Simulators
from tests.contract.outsides import serving
from tests.saga.running import RunningShop, running_shop

SECRET = SigningSecret.new()
ORDERS = tuple(map(str, range(8)))


@asynccontextmanager
async def later_shop(directory: Path, **later: float) -> AsyncIterator[tuple[RunningShop, str]]:
    """Open the shop and its API, whose address is given, too; a gateway and a carrier that these settings let answer later."""
    async with AsyncExitStack() as stack:
        shop = await stack.enter_async_context(running_shop(f"sqlite:///{directory}/shop.db", directory))
        api = await stack.enter_async_context(serving(create_app(shop.log, secrets=[SECRET], carrier_secrets=[SECRET])))
        settings = ShopSettings(
            callback_url=AnyHttpUrl(api + GATEWAY),
            carrier_callback_url=AnyHttpUrl(api + CARRIER),
            gateway_secrets=SecretStr(SECRET.reveal()),
            carrier_secrets=SecretStr(SECRET.reveal()),
        ).model_copy(update=later)
        ledger = stack.enter_context(Ledger(directory / "ledger.db"))
        server = await stack.enter_async_context(serving(make_app(Simulators(ledger, settings))))
        addresses = {f"{each}_url": AnyHttpUrl(f"{server}/{each}") for each in ("gateway", "carrier")}
        shop.elsewhere = await stack.enter_async_context(open_ports(settings.model_copy(update=addresses), "memory://"))
        yield shop, api


async def until_ended(shop: RunningShop, *order_ids: str) -> None:
    """Wait until each order has ended."""
    for each in order_ids:
        while not {"OrderCompleted", "OrderCancelled"} & (await shop.said(each)).keys():
            await asyncio.sleep(0.1)


async def cancelled_while_awaited(shop: RunningShop, accepted: type[Event]) -> Counter[str]:
    """Cancel an order whose request was accepted and is not reported on; return what was emitted once it has ended."""
    await shop.submit("1")
    await shop.until("1", accepted)
    await shop.cancel("1")
    await until_ended(shop, "1")
    await shop.check_conserved("1")
    return await shop.said("1")


async def post(url: str, secret: SigningSecret, webhook_id: str, body: bytes) -> int:
    """Send a report, and return the status of its answer."""
    async with httpx.AsyncClient(trust_env=False, timeout=60) as client:
        headers = STANDARD_WEBHOOKS.sign([secret], webhook_id, int(time.time()), body)
        return (await client.post(url, content=body, headers=headers)).status_code
