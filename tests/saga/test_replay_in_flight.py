"""The gate before a deployment: what today's code would do to the orders that have not ended."""

import asyncio
import json
import os
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from eventlib import Runtime
from eventlib.model.event import Event
from eventlib.model.handler import Handler
from eventlib.replay import PreflightReport, gate
from services.order.decider import orders
from services.payment.decider import payments
from services.payment.events import ChargeRequested
from services.stock.events import StockReserved
from services.stock.shelf import shelves
from tests import forked
from tests.saga.running import IMPATIENT, RunningShop, running_shop
from tests.saga.shop_runs import EVENTLIB, ROOT

ENDED = ("1", "2", "3")
WAITING = ("4", "5")
STOCK_RESERVED: type[Event] = StockReserved
CHARGE_REQUESTED: type[Event] = ChargeRequested


@dataclass(frozen=True)
class OddPayment:
    """A payment whose stage has another type than on the log."""

    stage: bytes = b""


@dataclass(frozen=True)
class OddShelf:
    """A shelf whose units have another type than on the log."""

    on_hand: bytes = b""


@pytest.fixture
async def shop(tmp_path: Path) -> AsyncIterator[RunningShop]:
    """Return the shop with orders that have ended, and orders whose charge was not answered when the services ended."""
    async with running_shop("memory://", tmp_path) as running:
        async with running.services() as runtime:
            await running.submit(*ENDED)
            await runtime.idle()
        running.to_gateway.held = asyncio.Event()
        async with running.services():
            await running.submit(*WAITING)
            await running.until_true(lambda: running.to_gateway.calls["charge"] == len(ENDED + WAITING))
        yield running


def stranded(found: PreflightReport) -> dict[str, str]:
    return {each.saga: each.why for each in found.standing.stranded}


async def test_what_goes_on_by_itself_lets_the_same_code_take_over(shop: RunningShop) -> None:
    found = await gate(shop.log)
    assert found.is_open
    assert found.standing.in_flight == len(WAITING)
    assert found.report.decisions > 0


async def test_when_all_has_ended_there_is_nothing_to_compare(shop: RunningShop) -> None:
    shop.to_gateway.held = None
    async with shop.services() as runtime:
        await runtime.idle()
    found = await gate(shop.log)
    assert found.is_open
    assert (found.standing.in_flight, found.report.decisions) == (0, 0)


async def test_only_what_has_not_ended_is_compared(shop: RunningShop, monkeypatch: pytest.MonkeyPatch) -> None:
    def silent(*_: object) -> list[Event]:
        return []

    handler = payments.handlers[StockReserved]
    monkeypatch.setitem(payments.handlers, STOCK_RESERVED, Handler(silent, handler.emits, handler.wants_meta))
    found = await gate(shop.log)
    assert not found.is_open
    (differing,) = found.report.differing
    assert (differing.handler, differing.sagas) == ("payment/payment.silent", WAITING)
    assert found.report.silent == WAITING
    assert stranded(found) == {}, "what is asked for already is answered all the same"


async def test_a_pending_effect_that_is_gone_strands_its_order(
    shop: RunningShop, monkeypatch: pytest.MonkeyPatch
) -> None:
    effects = {request: effect for request, effect in payments.effects.items() if request is not CHARGE_REQUESTED}
    monkeypatch.setattr(payments, "effects", effects)
    why = "the effect for ChargeRequested is pending, and the current code has none"
    assert stranded(await gate(shop.log)) == dict.fromkeys(WAITING, why)


async def test_a_state_that_cannot_be_read_strands_its_order(
    shop: RunningShop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(payments, "state", OddPayment)
    found = stranded(await gate(shop.log))
    assert found.keys() == set(WAITING)
    assert all(why.startswith("the current code cannot read the state of payment: ") for why in found.values())


async def test_a_state_of_no_order_that_cannot_be_read_closes_the_gate(
    shop: RunningShop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shelves, "state", OddShelf)
    found = await gate(shop.log)
    assert not found.is_open
    assert {(each.decider, each.key) for each in found.standing.unreadable} == {("shelf", "A")}


async def test_an_order_that_nothing_moves_any_more_is_stranded(
    shop: RunningShop, monkeypatch: pytest.MonkeyPatch
) -> None:
    ports = {"gateway": object(), "carrier": object()}
    async with Runtime(shop.log, ports=ports, services=["order", "stock"], config=IMPATIENT) as runtime:
        await shop.submit("6")
        await runtime.idle()
    (deadline,) = orders.deadlines.values()
    monkeypatch.setattr(deadline, "due_at", lambda _: None)
    assert stranded(await gate(shop.log)) == {}, "its StockReserved waits for payment"
    for decider in (payments, orders):
        handlers = {each: handler for each, handler in decider.handlers.items() if each is not STOCK_RESERVED}
        monkeypatch.setattr(decider, "handlers", handlers)
    found = stranded(await gate(shop.log))
    assert found == {"6": "no effect is pending, no deadline is due, no input waits"}


@pytest.mark.heavy
async def test_the_command_tells_it_by_its_exit_code(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/shop.db"
    async with running_shop(url, tmp_path) as running:
        running.to_gateway.held = asyncio.Event()
        async with running.services():
            await running.submit("1")
            await running.until_true(lambda: running.to_gateway.calls["charge"] == 1)
    (tmp_path / "changed.py").write_text(CHANGED, encoding="utf-8")
    code, same = _command(tmp_path, "services:shop", url)
    assert (code, same["in_flight"], same["differences"], same["stranded"]) == (0, 1, 0, [])
    code, other = _command(tmp_path, "changed:shop", url)
    assert (code, other["differences"], other["sagas"]) == (1, 1, ["1"])
    code, silent = _command(tmp_path, "changed:shop", url, "--service", "payment")
    assert (code, silent["differences"]) == (0, 0), "stock was changed, not payment"


CHANGED = """
from eventlib.model.handler import Handler
from services import shop
from services.stock.events import LineRequested
from services.stock.shelf import shelves

handler = shelves.handlers[LineRequested]

def reserve_twice(shelf, line):
    return 2 * handler.call(shelf, line)

shelves.handlers[LineRequested] = Handler(reserve_twice, handler.emits, handler.wants_meta)
"""


def _command(directory: Path, app: str, url: str, *options: str) -> tuple[int, dict[str, Any]]:
    command = [EVENTLIB, "replay", "--in-flight", "--json", "--app", app, "--log", url, *options]
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}:{directory}"}
    done = forked.run(command, cwd=ROOT, env=environment, capture_output=True, timeout=120)
    assert done.stderr == ""
    return done.returncode, json.loads(done.stdout)
