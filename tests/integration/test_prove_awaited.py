"""`eventlib prove in-flight` on logs with answers that are awaited: all that can be reported is explored, and nothing else."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from eventlib import Choreography, Event, Runtime, open_log
from eventlib.model.handler import Handler
from examples.transfers import app as transfers
from examples.transfers.purchases import (
    CancelSubmitted,
    PurchaseSubmitted,
    TransferConfirmed,
    TransferDeclined,
    purchases,
)
from services import shop
from services.dispatch.ports import Planned
from services.payment.ports import Charged
from services.stock.events import DeliveryLine, DeliverySubmitted
from tests.commands import ended
from tests.integration.shop_log import order

EXAMPLE = ("--app", "examples.transfers:app", "--scenario", "examples.transfers.simulated:TransferScenario")


class Bank:
    """A bank that accepts every transfer, and does nothing by itself."""

    async def transfer(self, key: str, purchase_id: str, amount_cents: int) -> None: ...

    async def void(self, key: str) -> None:
        raise AssertionError(key)


def filled(path: Path, choreography: Choreography, ports: dict[str, Any], *events: Sequence[Event]) -> str:
    """Return the URL of a log on which services handled events, the last of them none yet."""
    url = f"sqlite:///{path}"

    async def fill() -> None:
        async with open_log(url, choreography) as log:
            for handled in events[:-1]:
                async with Runtime(log, ports=ports) as runtime, asyncio.timeout(120):
                    for event in handled:
                        await log.publish(event)
                    await runtime.idle()
            for event in events[-1]:
                await log.publish(event)

    asyncio.run(fill())
    return url


def prove(url: str, *options: str) -> list[str]:
    return ended("prove", "in-flight", "--workers", "1", *options, "--log", url).stdout.splitlines()


ASKED = PurchaseSubmitted(purchase_id="P1", amount_cents=100)
CONFIRMED = TransferConfirmed(purchase_id="P1")


@pytest.mark.parametrize("unread", [(), (CONFIRMED,), (CONFIRMED, CancelSubmitted(purchase_id="P1"))])
def test_what_is_awaited_ends_lawfully(tmp_path: Path, unread: Sequence[Event]) -> None:
    url = filled(tmp_path / "awaited.db", transfers, {"bank": Bank()}, [ASKED], unread)
    assert prove(url, *EXAMPLE)[0].startswith("1 in flight, 1 shape, all end lawfully")


def fails(*_: object) -> list[Event]:
    raise KeyError("reason")


def test_each_report_that_may_still_come_is_explored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    url = filled(tmp_path / "awaited.db", transfers, {"bank": Bank()}, [ASKED], [])
    for event in (TransferConfirmed, TransferDeclined):
        with monkeypatch.context() as planted:
            plant(planted, event)
            headline, *rest = prove(url, *EXAMPLE)
        assert headline == "1 in flight, 1 shape: 1 that do not end lawfully."
        assert any(f"takes {event.__name__} P1" in line for line in rest), (headline, rest)


def test_a_report_that_is_on_the_log_excludes_the_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    url = filled(tmp_path / "awaited.db", transfers, {"bank": Bank()}, [ASKED], [CONFIRMED])
    plant(monkeypatch, TransferDeclined)
    assert prove(url, *EXAMPLE)[0].startswith("1 in flight, 1 shape, all end lawfully")


class Gateway:
    """A gateway that takes all money at once."""

    async def charge(self, *_: object) -> Charged:
        return Charged()


class Carrier:
    """A carrier that agrees to come for every parcel."""

    async def book(self, *_: object) -> Planned:
        return Planned()


@pytest.mark.extended  # ten thousand moments
def test_an_order_that_waits_for_its_driver_ends_lawfully(tmp_path: Path) -> None:
    delivered = DeliverySubmitted(delivery_id="D", lines=(DeliveryLine(sku="A", quantity=1),))
    ports = {"gateway": Gateway(), "carrier": Carrier()}
    url = filled(tmp_path / "shop.db", shop, ports, [delivered], [order("O1").event], [])
    later = ("--app", "services:shop", "--scenario", "services.simulation.later:LaterScenario")
    assert prove(url, *later)[0] == "1 in flight, 1 shape, all end lawfully within 16 steps."


def plant(monkeypatch: pytest.MonkeyPatch, event: type[Event]) -> None:
    """Let the handler of an event fail."""
    handler = purchases.handlers[event]
    handlers: dict[type[Event], Handler] = {
        **purchases.handlers,
        event: Handler(fails, handler.emits, handler.wants_meta),
    }
    monkeypatch.setattr(purchases, "handlers", handlers)
