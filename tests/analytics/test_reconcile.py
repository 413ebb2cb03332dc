"""What is live is what the log says, also while orders flow; and each thing that is not is named, exactly."""

import asyncio
import json
import shutil
import sqlite3
import subprocess
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from threading import Event, Thread
from typing import Any

import httpx
import pytest

from analytics.cli import run
from eventlib.model.decider import FORGET
from eventlib.opening import open_log
from eventlib.runtime.records import POSITION_KEY, pack, unpack
from services import shop
from services.order.state import Order
from services.payment.state import Payment
from tests import forked
from tests.analytics.damages import Damaged, as_if_written_so
from tests.in_rows import in_rows
from tests.integration.api_shop import ready
from tests.ports import free_port
from tests.saga.shop_runs import EVENTLIB, ROOT

pytestmark = pytest.mark.usefixtures("spark")

DECIDERS = {"order", "payment", "shipment", "reservation", "shelf", "delivery"}
Found = tuple[str, str, str, str]


@pytest.fixture
def url(shop_log: str, tmp_path: Path) -> str:
    """A copy of the log, with its stores and its gateway's ledger."""
    shutil.copytree(Path(shop_log.removeprefix("sqlite:///")).parent, tmp_path / "copy")
    return f"sqlite:///{tmp_path}/copy/shop.db"


@contextmanager
def serving(url: str, *options: str) -> Iterator[str]:
    """Run the API, with services or without, and give its address."""
    port = free_port()
    command = [EVENTLIB, "run", "--log", url, "--http", str(port), *options]
    process = forked.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, text=True)
    try:
        asyncio.run(answering(f"http://127.0.0.1:{port}"))
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        try:
            process.communicate(timeout=120)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()


async def answering(address: str) -> None:
    from tests.integration.api_shop import reachable

    async with httpx.AsyncClient(base_url=address, timeout=20) as client:
        await reachable(client)
        await ready(client)


@contextmanager
def orders_flowing(address: str) -> Iterator[list[str]]:
    """Place one order after the other."""
    placed, stop = list[str](), Event()

    def place() -> None:
        with httpx.Client(base_url=address, timeout=60) as client:
            product = next(p for p in client.get("/products").json()["products"] if p["unit_price_cents"])
            body = {
                "country": "France",
                "currency": product["currency"],
                "lines": [{"sku": product["sku"], "quantity": 1}],
            }
            while not stop.wait(0.5):
                placed.append(client.post("/orders", json=body).raise_for_status().json()["order_id"])

    flow = Thread(target=place)
    flow.start()
    try:
        yield placed
    finally:
        stop.set()
        flow.join()


def reconciled(capture: pytest.CaptureFixture[bytes], *options: str) -> tuple[int, dict[str, Any]]:
    code = run(["reconcile", "--json", *options])
    told = capture.readouterr()
    assert told.out, told.err
    found: dict[str, Any] = json.loads(told.out.splitlines()[-1])
    return code, found


@pytest.mark.slow
def test_while_orders_flow_nothing_differs(url: str, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    ledger = url.removeprefix("sqlite:///") + ".outside.db"
    with serving(url) as address, orders_flowing(address) as placed:
        code, told = reconciled(capfdbinary, "--log", url, "--api", address, "--ledger", ledger)
    assert (code, told["differences"]) == (0, [])
    assert placed
    by_place = {(each["where"], each["about"]): each for each in told["compared"]}
    states = {(where, decider) for where in ("store", "changelog") for decider in DECIDERS}
    assert by_place.keys() == states | {("HTTP API", "orders"), ("gateway", "payments")}
    assert all(each["keys"] == each["equal"] > 0 for each in told["compared"])
    with sqlite3.connect(in_rows(Path(url.removeprefix("sqlite:///")))) as log:
        (before,) = log.execute("SELECT count(*) FROM records WHERE type = 'OrderPlaced'").fetchone()
    assert by_place["changelog", "order"]["keys"] >= before - len(placed)
    assert by_place["HTTP API", "orders"]["keys"] >= before - len(placed)


def test_each_thing_that_is_not_as_the_log_says_is_named(url: str, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    path = Path(url.removeprefix("sqlite:///"))
    expected = asyncio.run(damaged(url, path)) | robbed(path.with_name("shop.db.outside.db"))
    with serving(url, "--no-services") as address:
        options = ("--log", url, "--api", address, "--ledger", f"{path}.outside.db")
        code, told = reconciled(capfdbinary, *options)
    assert code == 1
    found = {(d["where"], d["about"], d["key"], d["field"]): (d["live"], d["log"]) for d in told["differences"]}
    assert found.keys() == expected.keys()
    for name, (live, log) in expected.items():
        assert (live is None, log is None) == (found[name][0] is None, found[name][1] is None), name
        assert (live or "") in (found[name][0] or ""), name
        assert (log or "") in (found[name][1] or ""), name
    assert all(d["position"] for d in told["differences"])
    (torn,) = [d for d in told["differences"] if d["where"] == "log"]
    assert torn["position"] == f"{torn['about'].replace('/', '.journal/')}:0"
    by_place = {(each["where"], each["about"]): each for each in told["compared"]}
    api = by_place["HTTP API", "orders"]
    assert (api["differing"], api["only_log"], api["only_live"]) == (1, 1, 1)
    assert api["keys"] == api["equal"] + 3
    assert by_place["store", "reservation"]["equal"] == by_place["store", "reservation"]["keys"] > 0


async def damaged(url: str, path: Path) -> dict[Found, tuple[str | None, str | None]]:
    """Damage stores and the changelog that the API answers from; return what has to be found, and a part of it."""
    async with open_log(url, shop) as log:
        await log.codec.prepare([("order.changelog", Order), ("payment.changelog", Payment)])
        with closing(sqlite3.connect(in_rows(path), isolation_level=None)) as connection:
            done = Damaged(connection, log)
            rows = connection.execute("SELECT CAST(key AS TEXT) FROM records WHERE type = 'OrderCompleted' ORDER BY 1")
            names = [name for (name,) in rows]
            altered, dropped, invented = names[0], names[1], "GHOST"
            record = done.state("order", altered)
            order = log.codec.decode(Order, record["value"])
            lie = replace(order, taken_cents=order.taken_cents + 1)
            done.alter(record, value=log.codec.encode(lie))
            done.append(done.state("order", dropped), value=None)
            done.append(done.state("order", altered), key=f"state/order/{invented}".encode())
            mute, torn = tasks_without(path, names[4])
            (entry,) = connection.execute(FIRST, ("dispatch.journal", torn)).fetchone()
            done.alter({"position": entry}, value=b"torn")
            forgetful = connection.execute(FORGET_POSITION, (POSITION_KEY.encode(), "dispatch.changelog", mute))
            assert forgetful.rowcount
            as_if_written_so(connection)
        stores = path.with_name("shop.db.state")
        changed, lost, forgotten = names[2], names[3], names[4]

        def paid_less(key: str, stored: bytes) -> bytes:
            record = unpack(key, stored)
            payment = log.codec.decode(Payment, record.value or b"")
            return pack(record.replace(value=log.codec.encode(replace(payment, amount_cents=1))))

        edit(stores / "payment.db", f"state/payment/{changed}", paid_less)
        edit(stores / "order.db", f"state/order/{lost}", None)
        (shelf,) = edit(stores / "stock.db", "state/shelf/%", lambda _, stored: stored, most=1)
        copied(stores / "stock.db", shelf, "state/shelf/GHOST")
        edit(stores / "dispatch.db", f"due/%/shipment/%/{forgotten}", None)
        misplaced(stores / "dispatch.db", mute)
    taken = str(order.taken_cents)
    return {
        ("store", "payment", changed, "amount_cents"): ("1", ""),
        ("store", "order", lost, ""): (None, '"amount_cents"'),
        ("store", "shelf", "GHOST", ""): ('"on_hand"', None),
        ("store", "shipment", forgotten, f"deadline {FORGET}"): (None, "20"),
        ("store", f"dispatch/{mute}", "position", ""): ("cannot be read", "how far it is"),
        ("changelog", f"dispatch/{mute}", "position", ""): (None, "how far it is"),
        ("log", f"dispatch/{torn}", "past", ""): (None, "JournalEntry: 4 bytes"),
        ("changelog", "order", altered, "taken_cents"): (str(lie.taken_cents), taken),
        ("changelog", "order", dropped, ""): (None, '"amount_cents"'),
        ("changelog", "order", "GHOST", ""): ('"amount_cents"', None),
        ("HTTP API", "orders", altered, "taken_cents"): (str(lie.taken_cents), taken),
        ("HTTP API", "orders", dropped, ""): (None, "completed"),
        ("HTTP API", "orders", "GHOST", ""): ("completed", None),
    }


FIRST = """
SELECT min(position) FROM records
WHERE position >> 40 = (SELECT number FROM partitions WHERE topic = ? AND partition = ?)
"""

FORGET_POSITION = """
DELETE FROM records
WHERE key = ? AND position >> 40 = (SELECT number FROM partitions WHERE topic = ? AND partition = ?)
"""


def tasks_without(path: Path, order_id: str) -> tuple[int, int]:
    """Return two tasks of dispatch that an order is not at."""
    with closing(sqlite3.connect(path.with_name("shop.db.state") / "dispatch.db")) as store:
        sql = "SELECT DISTINCT partition FROM state EXCEPT SELECT partition FROM state WHERE key = ? ORDER BY partition"
        mute, torn, *_ = [task for (task,) in store.execute(sql, (f"state/shipment/{order_id}",))]
    return mute, torn


def edit(path: Path, pattern: str, change: Callable[[str, bytes], bytes] | None, most: int = -1) -> list[str]:
    """Change a store's values under keys like a pattern, or remove them; return the keys."""
    with closing(sqlite3.connect(path, isolation_level=None)) as store:
        rows = store.execute("SELECT key, value FROM state WHERE key LIKE ? LIMIT ?", (pattern, most)).fetchall()
        assert rows
        for key, value in rows:
            if change is None:
                store.execute("DELETE FROM state WHERE key = ?", (key,))
            else:
                store.execute("UPDATE state SET value = ? WHERE key = ?", (change(key, value), key))
        return [key for key, _ in rows]


def misplaced(path: Path, task: int) -> None:
    """Damage what a store has of its task's position."""
    with closing(sqlite3.connect(path, isolation_level=None)) as store:
        done = store.execute("UPDATE state SET value = x'3f' WHERE partition = ? AND key = ?", (task, POSITION_KEY))
        assert done.rowcount == 1


def copied(path: Path, key: str, to: str) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as store:
        store.execute("INSERT INTO state SELECT partition, ?, value, checksum FROM state WHERE key = ?", (to, key))


def robbed(path: Path) -> dict[Found, tuple[str | None, str | None]]:
    """Let the gateway have taken more than the log says, and return what has to be found."""
    with closing(sqlite3.connect(path, isolation_level=None)) as ledger:
        sql = "SELECT order_id, amount_cents FROM charges WHERE outcome = 'taken' ORDER BY order_id LIMIT 1"
        name, taken = ledger.execute(sql).fetchone()
        ledger.execute("UPDATE charges SET amount_cents = amount_cents + 7 WHERE order_id = ?", (name,))
    return {("gateway", "payments", name, "taken_cents"): (str(taken + 7), str(taken))}


def test_what_cannot_be_asked_is_a_sentence(url: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert run(["reconcile", "--log", "sqlite:///nowhere/shop.db"]) == 1
    assert "there is no log at nowhere/shop.db" in capfd.readouterr().err
    assert run(["reconcile", "--log", url, "--ledger", "nowhere.db"]) == 2
    assert "nowhere.db" in capfd.readouterr().err
