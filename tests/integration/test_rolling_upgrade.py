"""A rolling upgrade of all services while orders come in: tasks are handed over, and the invariants hold.

What it costs an order is printed, beside what orders of the same import took that it did not concern; how long that is
depends on the machine, so no bound stands here. That tasks were let go by those who had them is checked, for half of them:
an owner that the machine keeps from letting go for seconds is rightly ended by the next one.
"""

import json
from pathlib import Path
from statistics import median

import pytest

from eventlib.devtools.kafka import Cluster
from services import shop as the_shop
from tests.integration.upgraded import NAMES, PART, Upgraded
from tests.saga.waits import Waits, handovers

TASKS = sum(service.partitions for service in the_shop.services)


@pytest.mark.extended
def test_each_service_is_replaced_its_new_process_before_its_old_one_stops(tmp_path: Path, broker: Cluster) -> None:
    shop = Upgraded(tmp_path, broker, steps=2 * len(NAMES))
    with shop.importing():
        shop.start(*(f"{name} old" for name in NAMES))
        shop.orders_come()
        for name in NAMES:
            shop.start(f"{name} new")
            shop.orders_come()  # while the new one gets its share
            shop.orders_come()
            shop.stop(f"{name} old")
    check(shop, handed_over=TASKS)


@pytest.mark.slow
def test_each_process_of_two_is_replaced_as_a_stateful_set_does_it(tmp_path: Path, broker: Cluster) -> None:
    pairs = [[f"{name} {number}" for number in (1, 2)] for name in NAMES]
    shop = Upgraded(tmp_path, broker, steps=2 * 2 * len(NAMES))
    with shop.importing():
        shop.start(*(each for pair in pairs for each in pair))
        shop.orders_come()
        for each in (each for pair in pairs for each in reversed(pair)):
            shop.orders_come()
            shop.stop(each)
            shop.start(each)
            shop.orders_come()
    check(shop, handed_over=TASKS)


def check(shop: Upgraded, *, handed_over: int) -> None:
    """Check the invariants, and that tasks were handed over; print what that has cost."""
    waits = Waits.of(map(json.loads, shop.check()))
    changes = [change for change in handovers(shop.log.url) if change.task[0] in NAMES]
    for what, part in (("before", slice(PART)), ("during", slice(PART, None))):
        orders, steps = waits.orders[part], waits.steps[part]
        print(
            f"{what} the upgrade: {len(orders)} orders, from request to end {median(orders):.2f} s in the middle and "
            f"{max(orders):.2f} s at most; the longest step {max(steps)[0]:.2f} s, to {max(steps)[1]}"
        )
    without = [change.without_s for change in changes if change.let_go_ms is not None]
    found = f"{len(without)} of {len(changes)} changes of owners were handed over"
    print(f"{found}; nobody had the task for {median(without):.2f} s then, {max(without):.2f} s at most")
    assert len(changes) >= handed_over
    assert len(without) > len(changes) // 2, "tasks were taken from their owners"
