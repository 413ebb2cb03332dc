"""Live views on a real broker: each equals what is computed from the log by itself, whatever was killed."""

import asyncio
import json
import time
from functools import partial
from pathlib import Path

import pytest

from eventlib import open_log
from eventlib.telemetry.catalogue import METRICS
from eventlib.values import now_ms
from services import shop as the_shop
from tests.integration.live_answers import History, check_told, failures
from tests.integration.live_log import WATCHED, Story, is_read, share_read, told
from tests.integration.live_worker import SERVICES, LiveWorker
from tests.saga.shop_runs import REAL_ORDERS, ShopLog


@pytest.mark.extended
def test_views_equal_the_log_after_their_worker_was_killed_at_work(tmp_path: Path, kafka_url: str) -> None:
    shop = ShopLog(tmp_path, kafka_url)
    asyncio.run(told(shop.url, Story(160, seed=1)))
    with LiveWorker(shop.url, tmp_path) as worker:
        worker.wait(lambda: bool(worker.rows("stock", "shelves")), "the first row")
        worker.kill()
        asyncio.run(told(shop.url, Story(80, seed=2, first=160)))
        worker.start()
        check_all(worker, shop)
        here = [worker.ask("stock", "shelves", partition=str(each)) for each in range(8)]
        assert sum(len(each["rows"]) for each in here if each) == len(worker.rows("stock", "shelves") or ())
        assert worker.ask("stock", "shelves", partition="8") is None, "it answered for what it does not have"
        check_metrics(worker, shop.url)
        worker.stop()


def check_metrics(worker: LiveWorker, url: str) -> None:
    """Hold what a worker that has read everything tells of itself against what is so, and then goes wrong."""

    def value(metric: str, **labels: str) -> float:
        return worker.samples()[METRICS[metric].prometheus, frozenset(labels.items())]

    def all_is_done() -> bool:
        lags = {labels: lag for (name, labels), lag in worker.samples().items() if name == "eventlib_live_lag"}
        return len(lags) >= 8 * sum(map(len, WATCHED.values())) and not any(lags.values())

    worker.wait(all_is_done, "an end of all lags")
    seen = worker.samples()
    assert {name for name, _ in seen if name.startswith("eventlib")} == {
        metric.prometheus for metric in METRICS.values() if metric.measured_by == "views"
    }
    assert all(value > 0 for (name, _), value in seen.items() if name == "eventlib_live_table_size_bytes")
    orders = {"service": "dispatch", "topic": "orders"}
    before, began = value("eventlib.live.records.read", **orders), time.time()
    asyncio.run(garbled(url))
    worker.wait(lambda: value("eventlib.live.records.failed", **orders) == 1, "a record that cannot be read")
    assert value("eventlib.live.records.read", **orders) == before + 1
    assert value("eventlib.live.event.age", **orders) <= time.time() - began
    worker.wait(all_is_done, "an end of all lags")
    assert value("eventlib.live.records.failed", service="dispatch", topic="dispatches") == 0


async def garbled(url: str) -> None:
    """Put an order on a log whose bytes are none."""
    async with open_log(url, the_shop) as log:
        record = next(each for each in Story(1, seed=9).records(log) if each.type == "OrderPlaced")
        await log.port.append([record.replace(value=b"\x00\x00\x00\x00\x01broken", timestamp_ms=now_ms())])


def check_all(worker: LiveWorker, shop: ShopLog) -> None:
    """Wait until the views of all services have read everything, and hold them and what they told against the log."""
    for service in SERVICES:
        worker.wait(partial(_has_read, shop.url, service), f"the end of {service}'s inputs")
    history = History(map(json.loads, shop.tail()))
    worker.check(history)
    check_told(history, failures(history)[0])


def _has_read(url: str, service: str) -> bool:
    return asyncio.run(is_read(url, service))


@pytest.mark.slow
@pytest.mark.skipif(not REAL_ORDERS.exists(), reason="the real orders are not shipped with the project")
def test_views_of_the_whole_real_file_after_three_kills(tmp_path: Path, kafka_url: str) -> None:
    shop = ShopLog(tmp_path, kafka_url)
    shop.run_import(REAL_ORDERS, "--decline", "0.05", "--undeliverable", "0.05", longest_s=2_400)
    began = time.monotonic()
    with LiveWorker(shop.url, tmp_path, longest_s=3_600) as worker:
        for share in (0.1, 0.4, 0.7):
            worker.wait(partial(_has_come, shop.url, share), f"{share:.0%} of the log")
            worker.kill()
            worker.start()
        check_all(worker, shop)
        print(f"all read and right after {time.monotonic() - began:.0f} s, killed three times")
        worker.stop()


def _has_come(url: str, share: float) -> bool:
    return asyncio.run(share_read(url)) >= share
