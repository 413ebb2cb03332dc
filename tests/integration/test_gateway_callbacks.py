"""A gateway that accepts charges and calls back, over real sockets: the shop's API takes its reports, once each."""

from collections import Counter
from pathlib import Path

import httpx
import pytest
from pydantic import AnyHttpUrl, SecretStr

from eventlib.config import SettingsError
from eventlib.ground import watched_file
from eventlib.ground.private_files import write_private
from eventlib.webhooks import SigningSecret
from services.order.api import create_app
from services.payment.callbacks import PATH
from services.payment.events import ChargeAccepted
from services.settings import ShopSettings
from services.simulation.ledger import Ledger
from services.simulation.server import make_app
from services.simulation.simulators import Simulators
from tests.contract.outsides import serving
from tests.integration.later_shop import ORDERS, SECRET, cancelled_while_awaited, later_shop, post, until_ended
from tests.saga.running import RunningShop, running_shop


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
            await send_again(shop, api + PATH)
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
        assert await post(api + PATH, SigningSecret.new(), "x", body) == 401
        assert await post(api + PATH, SECRET, "x", b'{"type": "charge.confirmed", "order_id": "1"}') == 422
        assert await shop.said("1") == {}
        assert await post(api + PATH, SECRET, "x", body) == 204
        assert await shop.said("1") == {"ChargeConfirmed": 1}


async def test_a_secret_is_replaced_while_the_api_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watched_file, "LOOK_EVERY_S", 0.0)
    new, file = SigningSecret.new(), tmp_path / "secrets"
    write_private(file, SECRET.reveal())
    secrets = ShopSettings(gateway_secrets_file=file).signing_secrets("gateway")
    body = b'{"type": "charge.confirmed", "order_id": "1", "charge_key": "x"}'
    async with running_shop("memory://", tmp_path) as shop, serving(create_app(shop.log, secrets=secrets)) as api:
        assert [await post(api + PATH, each, "a", body) for each in (SECRET, new)] == [204, 401]
        write_private(file, f"# both are valid\n{new.reveal()}\n\n{SECRET.reveal()}\n")
        assert [await post(api + PATH, each, "b", body) for each in (SECRET, new)] == [204, 204]
        write_private(file, new.reveal())
        assert [await post(api + PATH, each, "c", body) for each in (SECRET, new)] == [401, 204]
        write_private(file, "whsec_short")
        assert [await post(api + PATH, each, "d", body) for each in (SECRET, new)] == [401, 204]


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
        assert await post(api + PATH, SECRET, "x", b"{}") == 404


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
