"""`eventlib run --workers`: several processes share the work, die and are started again, and stop together."""

import os
import signal
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from eventlib.cli import run
from eventlib.cli._common.workers import pause_after
from services import shop as the_shop
from tests.ports import free_port
from tests.saga.fleet import Fleet, importing, outside_at
from tests.saga.following import Endings
from tests.saga.invariants import History, check_laws, read_file
from tests.saga.shop_runs import ShopLog, order_file

STOCK_UNITS = 1_000
FAULTS = {"gateway": {"decline": 0.1}, "carrier": {"undeliverable": 0.1}}
PATIENCE_S = 120.0


def pids(diary: str) -> list[int]:
    """Return the processes of all lives of a supervisor's workers."""
    return [int(line.rpartition(" ")[2]) for line in diary.splitlines() if " is process " in line]


def running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def until(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.05)


def none_of(found: Iterable[int]) -> bool:
    return not any(map(running, found))


@pytest.mark.extended
def test_two_processes_for_each_service_and_one_of_each_dies(tmp_path: Path, kafka_url: str) -> None:
    shop, ledger = ShopLog(tmp_path, kafka_url), tmp_path / "simulators.db"
    file, outside = order_file(tmp_path, 150), f"http://127.0.0.1:{free_port()}"
    wanted, names = read_file(file), [service.name for service in the_shop.services]
    environment = outside_at(outside) | {"EVENTLIB_STATE_DIR": str(tmp_path / "state")}
    with Fleet(shop, environment) as fleet, Endings(shop.url) as endings:
        fleet.start_simulators(outside, ledger, FAULTS, seed=3)
        for name in names:
            fleet.start_services(name, "--service", name, "--workers", "2")
        for name in names:
            fleet.ready(name, "[1] Running ")
        fleet.start("placing", *importing(shop, file, STOCK_UNITS), "--place-only")
        endings.wait(1, longest_s=PATIENCE_S)
        killed = [pids(fleet.diary(name))[number % 2] for number, name in enumerate(names)]
        for pid in killed:
            os.kill(pid, signal.SIGKILL)
        endings.wait(len(wanted.orders), len(wanted.skus), longest_s=120)
        fleet.result("placing")
        for name in names:
            assert "was ended by SIGKILL; it restarts in 0.5 s" in fleet.diary(name)
        fleet.stop(*names, "simulators")
        assert all(fleet.diary(name).endswith("Stopped.\n") for name in names)
        assert none_of(pid for name in names for pid in pids(fleet.diary(name)))
    check_laws(wanted, History(shop.tail()), ledger, STOCK_UNITS)
    assert shop.parked() == []


def test_on_one_file_a_worker_takes_over_from_one_that_dies_and_none_outlives_the_supervisor(tmp_path: Path) -> None:
    shop = ShopLog(tmp_path)
    file = order_file(tmp_path, 60)
    wanted = read_file(file)
    with Fleet(shop) as fleet, Endings(shop.url) as endings:
        fleet.start_services("workers", "--workers", "2")
        fleet.ready("workers", "[2] Running ")
        fleet.start("placing", *importing(shop, file, STOCK_UNITS), "--place-only")
        endings.wait(1, longest_s=PATIENCE_S)
        os.kill(pids(fleet.diary("workers"))[0], signal.SIGKILL)
        endings.wait(len(wanted.orders), len(wanted.skus), longest_s=PATIENCE_S)
        until(lambda: len(pids(fleet.diary("workers"))) == 3, "it was not started again")
        assert none_of(pids(fleet.diary("workers"))[:1])
        fleet.result("placing")
        fleet.kill("workers")
        until(lambda: none_of(pids(fleet.diary("workers"))), "a worker outlives its supervisor")
    check_laws(wanted, History(shop.tail()), shop.ledger, STOCK_UNITS)


def test_who_cannot_run_at_all_says_so_once(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments, why in {
        ("--log", "memory://"): "memory:// exists in one process only",
        ("--no-services", "--http", "0"): "--workers run services",
        ("--log", "kafka://no such host/"): "which is not a valid host and port",
        ("--log", "sqlite:////proc/no/shop.db"): "/proc/no",
    }.items():
        assert run(["run", "--workers", "2", *arguments]) == 1
        _, err = capsys.readouterr()
        assert why in err
        assert len(err.splitlines()) == 1


def test_pauses_grow_and_end_at_half_a_minute() -> None:
    assert [pause_after(crashes) for crashes in (1, 2, 3, 7, 50)] == [0.5, 1.0, 2.0, 30.0, 30.0]


def test_a_worker_that_ends_badly_when_all_are_stopped_is_named(tmp_path: Path) -> None:
    script = (
        "import asyncio\n"
        "from eventlib.cli._common.workers import supervise\n"
        "from eventlib.cli._common.stopping import stop_signal\n"
        "import sys\n"
        "fails = [sys.executable, '-c', 'import signal, sys, time; signal.signal(15, lambda *_: sys.exit(7)); print(1, flush=True); time.sleep(60)']\n"
        "async def main():\n"
        "    await supervise([fails, fails[:2] + ['import time; time.sleep(60)']], stop_signal())\n"
        "asyncio.run(main())\n"
    )
    with Fleet(ShopLog(tmp_path)) as fleet:
        fleet.start("supervisor", sys.executable, "-c", script)
        fleet.ready("supervisor", "[1] 1")
        with pytest.raises(AssertionError, match="worker 1 ended with code 7"):
            fleet.stop("supervisor")
