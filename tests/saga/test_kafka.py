"""The shop on Kafka, unchanged: tasks shared between processes, killed, paused and handed over; then the invariants hold."""

import time
from pathlib import Path
from secrets import token_hex

import pytest

from eventlib.devtools.kafka import Cluster
from services import shop as the_shop
from tests.ports import free_port
from tests.saga.fleet import Fleet, importing, outside_at, summary_of
from tests.saga.following import Endings
from tests.saga.invariants import History, check_laws, read_file
from tests.saga.shop_runs import REAL_ORDERS, ShopLog, order_file

pytestmark = pytest.mark.heavy

FAULTS = {
    "gateway": {"decline": 0.05, "timeout": 0.05, "lost": 0.05, "duplicate": 0.05},
    "carrier": {"undeliverable": 0.05, "timeout": 0.05, "lost": 0.05, "duplicate": 0.05},
}
STOCK_UNITS = 1_000
SESSION_S = 2.0


def test_one_owner_is_killed_and_another_wakes_up_as_a_zombie(tmp_path: Path, kafka_url: str) -> None:
    shop = ShopLog(tmp_path, kafka_url)
    file, ledger = order_file(tmp_path, 120), tmp_path / "simulators.db"
    outside = f"http://127.0.0.1:{free_port()}"
    command = importing(shop, file, STOCK_UNITS)
    own = {"EVENTLIB_STATE_DIR": str(tmp_path / "state"), "EVENTLIB_KAFKA_SESSION_TIMEOUT_S": str(SESSION_S)}
    with Fleet(shop, outside_at(outside) | own) as fleet:
        fleet.start_simulators(outside, ledger, FAULTS, seed=3)
        for name in ("one", "two"):
            fleet.start_services(name)
            fleet.ready(name)
        fleet.start("placing", *command, "--place-only")
        fleet.result("placing")
        fleet.kill("one")
        fleet.pause("two")
        fleet.start("one")  # it has everything once the group has given up the other two
        time.sleep(SESSION_S + 2)
        fleet.go_on("two")
        fleet.start("seeing-through", *command)
        summary = summary_of(fleet.result("seeing-through"))
        fleet.stop("one", "two", "simulators")
    print(summary)
    history = History(shop.tail())
    check_laws(read_file(file), history, ledger, STOCK_UNITS)
    assert shop.parked() == []
    said = {kind for story in history.stories.values() for kind in story.said}
    assert {"PaymentFailed", "DispatchFailed", "OrderCompleted"} <= said


@pytest.mark.slow
@pytest.mark.skipif(not REAL_ORDERS.exists(), reason="the real orders are not shipped with the project")
def test_the_whole_real_file_with_two_processes_for_each_service(tmp_path: Path, broker: Cluster) -> None:
    _through_two_processes_each(tmp_path, broker, REAL_ORDERS, longest_s=1_500)


def _through_two_processes_each(directory: Path, broker: Cluster, file: Path, longest_s: float) -> None:
    shop, ledger = ShopLog(directory, f"{broker.url}/?prefix={token_hex(4)}."), directory / "simulators.db"
    outside, wanted = f"http://127.0.0.1:{free_port()}", read_file(file)
    names = {f"{service.name}-{number}": service for service in the_shop.services for number in (1, 2)}
    assert all(service.partitions == 8 for service in names.values())
    with (
        Fleet(shop, outside_at(outside) | {"EVENTLIB_STATE_DIR": str(directory / "state")}) as fleet,
        Endings(shop.url) as endings,
    ):
        fleet.start_simulators(outside, ledger, FAULTS, seed=3)
        for name, service in names.items():
            fleet.start_services(name, "--service", service.name)
        for name in names:
            fleet.ready(name)
        fleet.start("placing", *importing(shop, file, STOCK_UNITS), "--place-only")
        taken_s = endings.wait(len(wanted.orders), len(wanted.skus), longest_s=longest_s)
        summary = summary_of(fleet.result("placing"))
        fleet.stop(*names, "simulators")
    history = History(shop.tail())
    print(f"{len(wanted.orders)} orders, {history.records} events in {taken_s:.1f} s; {summary}")
    check_laws(wanted, history, ledger, STOCK_UNITS)
    assert shop.parked() == []
    again = shop.replay(longest_s=900)
    assert again["decisions"] > 0
    assert (again["differences"], again["unknown"]) == (0, []), again["first"]
