"""A shop moves to Kafka in the middle of its sagas: it is killed, copied, and goes on there; then the invariants hold."""

import contextlib
import json
import sqlite3
import time
from pathlib import Path

import pytest

from tests.commands import said
from tests.in_rows import in_rows
from tests.ports import free_port
from tests.saga.fleet import SERVICES, Fleet, set_faults, summary_of
from tests.saga.invariants import History, check_laws, read_file
from tests.saga.shop_runs import ShopLog, order_file

pytestmark = pytest.mark.heavy

FAULTS = {
    "gateway": {"decline": 0.05, "timeout": 0.05, "lost": 0.05, "duplicate": 0.05},
    "carrier": {"undeliverable": 0.05, "timeout": 0.05, "lost": 0.05, "duplicate": 0.05},
}
STOCK_UNITS = 1_000


@pytest.mark.extended
def test_a_shop_moves_with_its_running_sagas(tmp_path: Path, kafka_url: str) -> None:
    shop = ShopLog(tmp_path)
    moved = ShopLog(tmp_path, kafka_url)
    file, ledger = order_file(tmp_path, 120), tmp_path / "simulators.db"
    outside = f"http://127.0.0.1:{free_port()}"
    environment = {
        "SHOP_GATEWAY_URL": f"{outside}/gateway",
        "SHOP_CARRIER_URL": f"{outside}/carrier",
        "EVENTLIB_STATE_DIR": str(tmp_path / "state"),
    }
    importing = (*SERVICES, "import", str(file), "--json", "--stock", str(STOCK_UNITS), "--rejects", str(shop.rejects))
    with Fleet(shop, environment) as fleet:
        port = outside.rpartition(":")[2]
        fleet.start("simulators", *SERVICES, "simulators", "--port", port, "--ledger", str(ledger), "--seed", "3")
        set_faults(outside, FAULTS)
        fleet.start("placing", *importing, "--place-only")
        fleet.result("placing")
        fleet.start_services("here")
        fleet.ready("here")
        deadline = time.monotonic() + 60
        while ended(shop) < 10:
            assert time.monotonic() < deadline, fleet.diary("here")
            time.sleep(0.05)
        fleet.kill("here")
        placed = History(shop.tail()).stories
        assert 10 <= ended(shop) < len(placed), "no saga was under way"

        copied = said("copy", "--from", shop.url, "--to", moved.url, "--json")
        assert json.loads(copied)["source_retired"] is True
        assert list(moved.tail()) == list(shop.tail())

        fleet.shop = moved
        fleet.start_services("there")
        fleet.ready("there")
        fleet.start("seeing-through", *importing)
        summary = summary_of(fleet.result("seeing-through"))
        fleet.stop("there", "simulators")
    print(summary)
    assert summary["placed"] == 0
    history = History(moved.tail())
    check_laws(read_file(file), history, ledger, STOCK_UNITS)
    assert moved.parked() == []
    replayed = moved.replay()
    assert (replayed["differences"], replayed["unknown"]) == (0, [])


def ended(shop: ShopLog) -> int:
    copy = shop.directory / "copy-to-count.db"
    source, target = sqlite3.connect(shop.directory / "shop.db"), sqlite3.connect(copy)
    with contextlib.closing(source), contextlib.closing(target):
        source.backup(target)
    with contextlib.closing(sqlite3.connect(in_rows(copy))) as file:
        query = "SELECT count(*) FROM records WHERE type IN ('OrderCompleted', 'OrderCancelled')"
        return int(file.execute(query).fetchone()[0])
