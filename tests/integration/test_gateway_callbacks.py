"""A gateway and a carrier that answer later call the shop's API back, over real sockets: it takes each report once."""

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import httpx
import pytest
from pydantic import AnyHttpUrl, SecretStr, ValidationError

from eventlib import Event
from eventlib.config import SettingsError
from eventlib.ground import watched_file
from eventlib.ground.private_files import write_private
from eventlib.webhooks import STANDARD_WEBHOOKS, SigningSecret
from services.dispatch.callbacks import PATH as CARRIER
from services.dispatch.callbacks import reported
from services.dispatch.events import BookingAccepted, ParcelCollected
from services.order.api import create_app
from services.outside import open_ports
from services.payment.callbacks import PATH as GATEWAY
from services.payment.events import ChargeAccepted
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


async def test_orders_are_paid_by_callbacks_and_what_is_sent_again_changes_nothing(tmp_path: Path) -> None:
    async with later_shop(tmp_path, later=1.0, decline=0.3, confirm_s=0.2) as (shop, api):
        async with shop.services():
            await shop.submit(*ORDERS)
            await until_ended(shop, *ORDERS)
        taken = shop.rows("SELECT count(*) FROM charges WHERE outcome = 'taken'")[0][0]
        assert 0 < taken < len(ORDERS), "some are confirmed, and some are declined"
        assert shop.rows("SELECT count(*) FROM callbacks WHERE sent_ms IS NULL") == [(0,)]
        said = [await shop.said(each) for each in ORDERS]
        assert sum(each["ChargeConfirmed"] for each in said) == taken == sum(each["OrderCompleted"] for each in said)
        await shop.check_conserved(*ORDERS)
        async with shop.services() as runtime:
            await send_again(shop, api + GATEWAY)
            await runtime.idle()
        for before, order_id in zip(said, ORDERS, strict=True):
            assert (await shop.said(order_id)) - before == Counter(ChargeConfirmed=2 * before["ChargeConfirmed"])


async def test_an_order_that_is_cancelled_while_its_callback_is_awaited_ends_at_once(tmp_path: Path) -> None:
    async with later_shop(tmp_path, later=1.0, confirm_s=3_600) as (shop, _api), shop.services():
        said = await cancelled_while_awaited(shop, ChargeAccepted)
        assert (said["PaymentVoided"], said["OrderCancelled"], said["PaymentTaken"]) == (1, 1, 0)


async def test_a_report_with_another_secret_is_refused_and_nothing_of_it_is_on_the_log(tmp_path: Path) -> None:
    async with running_shop("memory://", tmp_path) as shop, serving(create_app(shop.log, secrets=[SECRET])) as api:
        body = b'{"type": "charge.confirmed", "order_id": "1", "charge_key": "x"}'
        assert await post(api + GATEWAY, SigningSecret.new(), "x", body) == 401
        assert await post(api + GATEWAY, SECRET, "x", b'{"type": "charge.confirmed", "order_id": "1"}') == 422
        assert await shop.said("1") == {}
        assert await post(api + GATEWAY, SECRET, "x", body) == 204
        assert await shop.said("1") == {"ChargeConfirmed": 1}


async def test_a_secret_is_replaced_while_the_api_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watched_file, "LOOK_EVERY_S", 0.0)
    new, file = SigningSecret.new(), tmp_path / "secrets"
    write_private(file, SECRET.reveal())
    secrets = ShopSettings(gateway_secrets_file=file).signing_secrets("gateway")
    body = b'{"type": "charge.confirmed", "order_id": "1", "charge_key": "x"}'
    async with running_shop("memory://", tmp_path) as shop, serving(create_app(shop.log, secrets=secrets)) as api:
        assert [await post(api + GATEWAY, each, "a", body) for each in (SECRET, new)] == [204, 401]
        write_private(file, f"# both are valid\n{new.reveal()}\n\n{SECRET.reveal()}\n")
        assert [await post(api + GATEWAY, each, "b", body) for each in (SECRET, new)] == [204, 204]
        write_private(file, new.reveal())
        assert [await post(api + GATEWAY, each, "c", body) for each in (SECRET, new)] == [401, 204]
        write_private(file, "whsec_short")
        assert [await post(api + GATEWAY, each, "d", body) for each in (SECRET, new)] == [401, 204]


@pytest.mark.parametrize(
    ("text", "remedy"),
    [
        ("", "no secret is given"),
        ("# one\nwhsec_short\n", "line 2 of the secrets file .*base64"),
        (None, "one secret in a line"),
    ],
)
def test_a_file_without_usable_secrets_is_refused(tmp_path: Path, text: str | None, remedy: str) -> None:
    file = tmp_path / "secrets"
    if text is not None:
        write_private(file, text)
    with pytest.raises(SettingsError, match=f"SHOP_GATEWAY_SECRETS_FILE: .*{remedy}"):
        _ = ShopSettings(gateway_secrets_file=file).signing_secrets("gateway")


def test_secrets_are_given_in_one_way(tmp_path: Path) -> None:
    settings = ShopSettings(gateway_secrets_file=tmp_path / "secrets", gateway_secrets=SecretStr(SECRET.reveal()))
    with pytest.raises(SettingsError, match="set one of the two"):
        _ = settings.signing_secrets("gateway")


async def test_without_a_secret_there_is_no_such_route(tmp_path: Path) -> None:
    async with running_shop("memory://", tmp_path) as shop, serving(create_app(shop.log)) as api:
        assert await post(api + GATEWAY, SECRET, "x", b"{}") == 404


@pytest.mark.parametrize(
    ("settings", "remedy"),
    [
        (ShopSettings(later=0.5), "set SHOP_CALLBACK_URL too"),
        (ShopSettings(parcels_later=0.5), "set SHOP_CARRIER_CALLBACK_URL too"),
        (ShopSettings(callback_url=AnyHttpUrl("http://127.0.0.1:1/")), "set SHOP_GATEWAY_SECRETS too"),
        (ShopSettings(carrier_callback_url=AnyHttpUrl("http://127.0.0.1:1/")), "set SHOP_CARRIER_SECRETS too"),
        (
            ShopSettings(callback_url=AnyHttpUrl("http://127.0.0.1:1/"), gateway_secrets=SecretStr("x,y")),
            "SHOP_GATEWAY_SECRETS: a secret of Standard Webhooks",
        ),
    ],
)
def test_settings_that_could_not_report_are_refused(settings: ShopSettings, remedy: str) -> None:
    with Ledger(":memory:") as ledger, pytest.raises(SettingsError, match=remedy):
        Simulators(ledger, settings)


async def send_again(shop: RunningShop, url: str) -> None:
    """Confirm each charge a second time: under its id, and under another."""
    for key, order_id in shop.rows("SELECT key, order_id FROM charges WHERE outcome = 'taken'"):
        body = f'{{"type":"charge.confirmed","order_id":"{order_id}","charge_key":"{key}"}}'.encode()
        assert await post(url, SECRET, key, body) == 204
        assert await post(url, SECRET, f"{key}-again", body) == 204


async def test_faults_that_could_not_be_reported_are_refused(tmp_path: Path) -> None:
    with Ledger(tmp_path / "ledger.db") as ledger:
        transport = httpx.ASGITransport(make_app(Simulators(ledger, ShopSettings())))
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            refused = await client.put("/faults", json={"gateway": {"later": 0.5}})
            assert (refused.status_code, "SHOP_CALLBACK_URL" in refused.text) == (422, True)
            assert (await client.get("/faults")).json()["gateway"]["later"] == 0


async def test_orders_are_dispatched_by_callbacks_and_what_is_sent_again_changes_nothing(tmp_path: Path) -> None:
    async with later_shop(tmp_path, parcels_later=1.0, undeliverable=0.3, collect_s=0.2) as (shop, api):
        async with shop.services():
            await shop.submit(*ORDERS)
            await until_ended(shop, *ORDERS)
        parcels = shop.rows("SELECT key, order_id, outcome FROM parcels")
        fetched = [(key, order_id) for key, order_id, outcome in parcels if outcome == "booked"]
        assert 0 < len(fetched) < len(ORDERS), "some are fetched, and some are refused"
        assert shop.rows("SELECT count(*) FROM collections WHERE sent_ms IS NULL") == [(0,)]
        said = {each: await shop.said(each) for each in ORDERS}
        assert {order_id for _, order_id in fetched} == {each for each in ORDERS if said[each]["OrderCompleted"]}
        assert all(each["BookingAccepted"] == 1 for each in said.values())
        async with shop.services() as runtime:
            for key, order_id in fetched:
                body = f'{{"type":"parcel.collected","order_id":"{order_id}","booking_key":"{key}","tracking":"X"}}'
                for webhook_id in (key, f"{key}-again"):
                    assert await post(api + CARRIER, SECRET, webhook_id, body.encode()) == 204
            await runtime.idle()
        for each in ORDERS:
            twice = Counter(ParcelCollected=2 * said[each]["ParcelCollected"])
            assert (await shop.said(each)) - said[each] == twice


async def test_an_order_that_is_cancelled_while_its_driver_is_awaited_ends_at_once(tmp_path: Path) -> None:
    async with later_shop(tmp_path, parcels_later=1.0, collect_s=3_600) as (shop, _api), shop.services():
        said = await cancelled_while_awaited(shop, BookingAccepted)
        assert (said["DispatchFailed"], said["PaymentRefunded"], said["OrderCancelled"]) == (1, 1, 1)


async def test_a_parcel_without_a_reference_is_refused(tmp_path: Path) -> None:
    body = b'{"type": "parcel.collected", "order_id": "1", "booking_key": "x", "tracking": ""}'
    with pytest.raises(ValidationError, match=r"tracking\s.*at least 1 character"):
        reported(body)
    async with running_shop("memory://", tmp_path) as shop:
        async with serving(create_app(shop.log, carrier_secrets=[SECRET])) as api:
            assert await post(api + CARRIER, SECRET, "x", body) == 422
        assert await shop.said("1") == {}
        old = ParcelCollected(order_id="1", booking_key="x", tracking="")
        assert shop.log.codec.decode(ParcelCollected, shop.log.codec.encode(old)) == old  # as on logs that took it


async def test_a_parcel_that_is_recalled_first_is_not_fetched(tmp_path: Path) -> None:
    address = AnyHttpUrl("http://127.0.0.1:1/")
    settings = ShopSettings(
        parcels_later=1.0, collect_s=3600, carrier_callback_url=address, carrier_secrets=SecretStr(SECRET.reveal())
    )
    with Ledger(tmp_path / "ledger.db") as ledger:
        async with serving(make_app(Simulators(ledger, settings))) as server, httpx.AsyncClient() as client:
            asked = {"order_id": "1", "country": "France"}

            async def call(path: str, body: dict[str, str]) -> tuple[int, dict[str, str]]:
                answer = await client.post(f"{server}/carrier/{path}", json=body, headers={"Idempotency-Key": "k"})
                return answer.status_code, answer.json()

            assert await call("parcels", asked) == await call("parcels", asked) == (202, {"outcome": "accepted"})
            assert await call("recalls", {"parcel_key": "k"}) == (200, {"outcome": "recalled"})
            assert await call("parcels", asked) == (200, {"outcome": "undeliverable", "reason": "recalled"})
