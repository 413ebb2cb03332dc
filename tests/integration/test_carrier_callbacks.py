"""A carrier that agrees to come and calls back, over real sockets: the shop's API takes its reports, once each."""

from collections import Counter
from pathlib import Path

import httpx
import pytest
from pydantic import AnyHttpUrl, SecretStr, ValidationError

from services.dispatch.callbacks import PATH, reported
from services.dispatch.events import BookingAccepted, ParcelCollected
from services.order.api import create_app
from services.settings import ShopSettings
from services.simulation.ledger import Ledger
from services.simulation.server import make_app
from services.simulation.simulators import Simulators
from tests.contract.outsides import serving
from tests.integration.later_shop import ORDERS, SECRET, cancelled_while_awaited, later_shop, post, until_ended
from tests.saga.running import running_shop


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
                    assert await post(api + PATH, SECRET, webhook_id, body.encode()) == 204
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
            assert await post(api + PATH, SECRET, "x", body) == 422
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
