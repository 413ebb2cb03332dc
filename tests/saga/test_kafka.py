"""The shop on Kafka, unchanged: tasks shared between processes, killed, paused and handed over; then the laws hold."""

import time
from pathlib import Path
from secrets import token_hex

from eventlib.broker import Cluster
from tests.saga.fleet import SERVICES, Fleet, free_port, set_faults, summary_of
from tests.saga.laws import History, check_laws, read_file
from tests.saga.shop_runs import ShopLog, order_file

FAULTS = {
    "gateway": {"decline": 0.05, "timeout": 0.05, "lost": 0.05, "duplicate": 0.05},
    "carrier": {"undeliverable": 0.05, "timeout": 0.05, "lost": 0.05, "duplicate": 0.05},
}
STOCK_UNITS = 1_000
SESSION_S = 6.0


def test_one_owner_is_killed_and_another_wakes_up_as_a_zombie(tmp_path: Path, broker: Cluster) -> None:
    shop = ShopLog(tmp_path, f"{broker.url}/?prefix={token_hex(4)}.")
    file, ledger = order_file(tmp_path, 200), tmp_path / "simulators.db"
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
        for name in ("one", "two"):
            fleet.start_services(name)
            fleet.ready(name)
        fleet.start("placing", *importing, "--place-only")
        fleet.result("placing")
        fleet.kill("one")
        fleet.pause("two")
        fleet.start("one")  # it has everything once the group has given up the other two
        time.sleep(SESSION_S + 2)
        fleet.go_on("two")
        fleet.start("seeing-through", *importing)
        summary = summary_of(fleet.result("seeing-through"))
        fleet.stop("one", "two", "simulators")
    print(summary)
    history = History(shop.tail())
    check_laws(read_file(file), history, ledger, STOCK_UNITS)
    assert shop.parked() == []
    said = {kind for story in history.stories.values() for kind in story.said}
    assert {"PaymentFailed", "DispatchFailed", "OrderCompleted"} <= said
