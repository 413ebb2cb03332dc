"""The preview of a deployment in a browser: begun, followed, and what speaks against it."""

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from eventlib import open_log
from services import shop
from services.order.events import CancelSubmitted
from tests.console.browsers import running_console, visiting
from tests.integration.repository import SURCHARGE, Repository
from tests.integration.shop_log import order, served, supplied
from tests.integration.test_prove import FAILS

if TYPE_CHECKING:
    from playwright.async_api import Browser

pytestmark = pytest.mark.asyncio(loop_scope="session")
BEGIN = "Begin"


async def test_a_deployment_is_previewed(browser: "Browser", tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    repository = Repository(tmp_path / "mine")
    settings = repository.directory / "pyproject.toml"
    settings.write_text(f'{settings.read_text()}simulation = "services.simulation.scenario:ShopScenario"\n')
    repository.commit("right")
    repository.change(SURCHARGE)
    repository.change(FAILS, file="services/order/decider.py")
    repository.commit("wrong")
    monkeypatch.chdir(repository.directory)
    url = f"sqlite:///{tmp_path}/log.db"
    async with open_log(url, shop) as log:
        await supplied(log)
        await log.publish(order("F1").event)
        await served(log)
        await log.publish(CancelSubmitted(order_id="F1"))
    async with (
        open_log(url, shop, read_only=True) as log,
        running_console(log) as address,
        visiting(browser, address) as visit,
    ):
        page = await visit.open("/reruns")
        await page.get_by_role("link", name="Deployments, and their preview").click()
        await page.fill("#code", "wrong")
        await page.fill("#against", "right")
        await page.get_by_role("button", name=BEGIN).click()
        await page.locator(".note.bad").wait_for(timeout=120_000)
        assert await page.locator(".note.bad").inner_text() == (
            "Do not deploy it: 1 kind of difference not declared; 1 in flight not lawful."
        )
        text = await page.locator("#deployment").inner_text()
        assert "payment/payment.charge on StockReserved: ~ChargeRequested" in text
        assert "takes CancelSubmitted F1" in text
        assert await visit.findings() == []
        await page.fill("#code", "right")
        await page.get_by_role("button", name=BEGIN).click()
        await page.locator(".note.good").wait_for(timeout=120_000)
        await page.fill("#code", "--in-flight")
        await page.get_by_role("button", name=BEGIN).click()
        assert "code is the name of a branch" in await page.locator(".note.bad").inner_text()
