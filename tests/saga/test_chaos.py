"""Everything at once: services, API and simulators in processes of their own, over HTTP, cancelled and killed.

The simulators refuse, hang, lose answers and repeat; a process of its own cancels orders over HTTP; whoever does
something is killed at random moments and started again. Then the invariants hold, the gateway's own ledger included.
"""

import sys
import time
from dataclasses import dataclass
from pathlib import Path
from random import Random

import pytest

from tests.ports import free_port
from tests.saga.fleet import SERVICES, Fleet, set_faults, summary_of, wait_for
from tests.saga.invariants import History, check_answers, check_laws, read_file
from tests.saga.pasts import check_pasts
from tests.saga.shop_runs import REAL_ORDERS, ShopLog, order_file

pytestmark = pytest.mark.heavy

FAULTS: dict[str, dict[str, float]] = {
    "gateway": {"decline": 0.1, "timeout": 0.025, "lost": 0.025, "duplicate": 0.05, "silent": 0.03},
    "carrier": {"undeliverable": 0.02, "timeout": 0.02, "lost": 0.02, "duplicate": 0.05, "silent": 0.03},
    "http": {"error": 0.02, "throttle": 0.01, "garbage": 0.01, "late": 0.01, "hang_s": 2.0},
}
CANCELLER = Path(__file__).with_name("canceller.py")
STANDBYS = ("services-1", "services-2")


@dataclass(frozen=True)
class Chaos:
    """How much of it: orders, the share that is cancelled, and how often somebody is killed."""

    seed: int
    orders: int
    cancelled: float
    stock_units: int
    kills: int
    pause_s: float
    spread_s: float


@pytest.mark.parametrize(
    "chaos", [Chaos(20_261_121, 120, 0.1, 400, 6, 0.6, 6.0)], ids=lambda chaos: f"seed {chaos.seed}"
)
def test_cancelled_and_killed_the_laws_hold(tmp_path: Path, chaos: Chaos) -> None:
    _run(tmp_path, chaos)


@pytest.mark.slow
@pytest.mark.skipif(not REAL_ORDERS.exists(), reason="the real orders are not shipped with the project")
@pytest.mark.parametrize(
    "chaos",
    [Chaos(seed, 3_000, 0.03, 3_000, 40, 2.0, 100.0) for seed in (1, 2, 3)],
    ids=lambda chaos: f"seed {chaos.seed}",
)
def test_thousands_of_orders_cancelled_and_killed_forty_times(tmp_path: Path, chaos: Chaos) -> None:
    _run(tmp_path, chaos)


def _run(directory: Path, chaos: Chaos) -> None:
    print(chaos)
    outside, api = f"http://127.0.0.1:{free_port()}", f"http://127.0.0.1:{free_port()}"
    shop, file = ShopLog(directory), order_file(directory, chaos.orders)
    ledger, wanted, random = directory / "simulators.db", read_file(file), Random(chaos.seed)
    to_cancel = random.sample(sorted(wanted.orders), round(chaos.cancelled * len(wanted.orders)))
    environment = {
        "SHOP_GATEWAY_URL": f"{outside}/gateway",
        "SHOP_CARRIER_URL": f"{outside}/carrier",
        "SHOP_CONNECT_TIMEOUT_S": "0.5",
        "SHOP_READ_TIMEOUT_S": "0.5",
        "EVENTLIB_BREAKER_PAUSE_S": "0.2",
    }
    importing = (
        *SERVICES,
        "import",
        str(file),
        "--json",
        "--stock",
        str(chaos.stock_units),
        "--rejects",
        str(shop.rejects),
    )
    with Fleet(shop, environment) as fleet:
        port = outside.rpartition(":")[2]
        seed = str(chaos.seed)
        fleet.start("simulators", *SERVICES, "simulators", "--port", port, "--ledger", str(ledger), "--seed", seed)
        for name in STANDBYS:
            fleet.start_services(name)
        fleet.start_services("api", "--no-services", "--http", api.rpartition(":")[2])
        set_faults(outside, FAULTS)
        wait_for(f"{api}/readyz")
        fleet.start("placing", *importing, "--place-only")
        fleet.start("canceller", sys.executable, str(CANCELLER), api, seed, str(chaos.spread_s), *to_cancel)
        _kill(fleet, chaos, random, outside)
        fleet.result("placing")
        answers = summary_of(fleet.result("canceller"))
        fleet.stop(*STANDBYS, "api")
        fleet.start("seeing-through", *importing)
        summary = summary_of(fleet.result("seeing-through"))
        fleet.stop("simulators")
    print(f"{fleet.kills} kills; answers {answers}; {summary}")
    history = History(shop.tail())
    check_laws(wanted, history, ledger, chaos.stock_units)
    check_answers(history, answers)
    assert answers.keys() == set(to_cancel)
    assert shop.parked() == []
    again = shop.replay()
    assert again["decisions"] > 0
    assert (again["differences"], again["unknown"]) == (0, []), again["first"]
    assert check_pasts(shop.url, random.sample(sorted(wanted.orders), 20)) > 20
    _was_tried(history, chaos, fleet)


def _kill(fleet: Fleet, chaos: Chaos, random: Random, outside: str) -> None:
    """Kill one after the other, each of them often enough, and start it again a moment later."""
    names = [*STANDBYS, "simulators", "api"]
    for number in range(chaos.kills):
        name = names[number % len(names)] if number < len(names) else random.choice(names)
        time.sleep(random.uniform(0.5, 1.5) * chaos.pause_s)
        fleet.kill(name)
        time.sleep(random.uniform(0, 0.5))
        fleet.start(name)
        if name == "simulators":
            set_faults(outside, FAULTS)


def _was_tried(history: History, chaos: Chaos, fleet: Fleet) -> None:
    """See that the chaos was one."""
    assert fleet.kills == chaos.kills
    said = {kind for story in history.stories.values() for kind in story.said}
    assert "OrderCompleted" in said
    if chaos.orders >= 1_000:  # of a hundred orders, a few dozen are paid: now and then none of them is declined
        assert "PaymentFailed" in said
        assert said & {"DispatchCancelled", "CancelRefused"}
        assert said & {"PaymentVoided", "DispatchFailed"}
