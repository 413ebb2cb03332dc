"""Live views on a real broker: each equals what is computed from the log by itself, whatever was killed."""

import asyncio
import json
import time
from functools import partial
from pathlib import Path
from secrets import token_hex

import pytest
from aiokafka import AIOKafkaProducer

from eventlib import open_log
from eventlib.devtools.kafka import Cluster
from eventlib.log.kafka.batches import headers_of
from eventlib.log.kafka.options import parse_url
from eventlib.telemetry.catalogue import METRICS
from eventlib.values import now_ms
from services import shop as the_shop
from tests.integration.live_answers import History, check_told, customers, failures
from tests.integration.live_log import WATCHED, Story, is_read, share_read, told
from tests.integration.live_worker import SERVICES, LiveWorker, reset
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


TOPICS = {"orders", "live.order.by-country", "live.order.by-customer"}
"""What order's views read."""


@pytest.mark.slow
def test_any_worker_answers_and_a_reset_computes_the_same(tmp_path: Path, kafka_url: str) -> None:
    shop = ShopLog(tmp_path, kafka_url)
    asyncio.run(told(shop.url, Story(60, seed=3)))
    asyncio.run(aborted(shop.url))
    wanted = customers(History(map(json.loads, shop.tail())))
    with LiveWorker(shop.url, tmp_path, "order") as one:
        one.wait(lambda: one.rows("order", "customers") is not None, "the first worker")
        other = LiveWorker(shop.url, tmp_path, "order")
        other.start_by_faust("order")
        try:
            other.wait(lambda: other.rows("order", "customers") == wanted, "all rows from a second worker")
            one.wait(lambda: one.rows("order", "customers") == wanted, "all rows from the first worker")
            for name, currency in wanted:
                for worker in (one, other):
                    found = worker.ask("order", "customers", key=name)
                    assert found is not None
                    assert [row["key"] for row in found["rows"]] == [[name, currency]]
            for each in map(str, range(8)):
                answers = [worker.ask("order", "customers", partition=each) for worker in (one, other)]
                assert answers.count(None) == 1, "one of them has it, and the other does not answer for it"
            refused = reset(shop.url, tmp_path, "order")
            assert refused.returncode == 1
            assert "stop them first" in refused.stderr
            other.stop()
        finally:
            other.__exit__()
        one.stop()
        one.wait(lambda: reset(shop.url, tmp_path, "order").returncode == 0, "an end of the group")
        one.start()
        one.wait(partial(_orders_are_read, shop.url), "the end of the inputs")
        one.check(History(map(json.loads, shop.tail())))


@pytest.mark.slow
def test_tables_stay_right_while_one_of_two_workers_is_killed_comes_back_and_leaves(
    tmp_path: Path, kafka_url: str
) -> None:
    shop = ShopLog(tmp_path, kafka_url)
    asyncio.run(told(shop.url, Story(80, seed=5)))
    with LiveWorker(shop.url, tmp_path, "order") as one, LiveWorker(shop.url, tmp_path, "order") as other:
        for seed, leave in ((6, LiveWorker.kill), (7, LiveWorker.stop)):
            one.wait(partial(share_all, one, other), "both workers with a part each, and all together")
            before = read_by(other)
            asyncio.run(told(shop.url, Story(80, seed=seed, first=1_000 * seed)))
            one.wait(partial(has_read_more, other, before), "what is new at the second worker")
            leave(other)
            one.wait(partial(has_all, one), "all partitions at the first worker")
            one.wait(partial(_orders_are_read, shop.url), "the end of the inputs")
            one.check(History(map(json.loads, shop.tail())))
            other.start()
        one.wait(partial(share_all, one, other), "both workers with a part each, and all together")
        other.check(History(map(json.loads, shop.tail())))
        one.stop()
        other.stop()


@pytest.mark.slow
def test_a_worker_that_is_silent_for_longer_than_its_session_misses_nothing(tmp_path: Path, broker: Cluster) -> None:
    """What came meanwhile is there when it goes on, in the midst of a fetch: it missed that in one of ten rounds."""
    shop = ShopLog(tmp_path, f"{broker.url}/?prefix={token_hex(4)}.&session_timeout_s=6")
    asyncio.run(told(shop.url, Story(20, seed=5)))
    with LiveWorker(shop.url, tmp_path, "order") as worker:
        worker.wait(partial(_orders_are_read, shop.url), "the end of the inputs")
        for seed in range(6, 26):
            with worker.paused():
                asyncio.run(told(shop.url, Story(10, seed=seed, first=1_000 * seed)))
                time.sleep(7)
            worker.wait(partial(_orders_are_read, shop.url), "the end of the inputs")
        worker.check(History(map(json.loads, shop.tail())))
        worker.stop()


def share_all(one: LiveWorker, other: LiveWorker) -> bool:
    """Tell whether each partition is one worker's, and each worker has some."""
    parts = one.partitions(), other.partitions()
    return all(parts) and not parts[0] & parts[1] and is_whole(parts[0] | parts[1])


def has_all(worker: LiveWorker) -> bool:
    """Tell whether a worker has every partition."""
    return is_whole(worker.partitions())


def is_whole(partitions: set[tuple[str, str]]) -> bool:
    """Tell whether partitions are all of what order's views read: of their input, and of what is between them."""
    topics = {topic for topic, _ in partitions}
    return topics == TOPICS and len(partitions) == 8 * len(topics)


def has_read_more(worker: LiveWorker, before: float) -> bool:
    """Tell whether a worker has read something since it had read so much."""
    return read_by(worker) > before


def read_by(worker: LiveWorker) -> float:
    """Return how many records a worker has read since it was started."""
    return sum(value for (name, _), value in worker.samples().items() if name == "eventlib_live_records_read_total")


async def aborted(url: str) -> None:
    """Write an order in a transaction that is aborted: nobody may see it."""
    hosts, options = parse_url(url)
    async with open_log(url, the_shop) as log:
        records = [each for each in Story(1, seed=4, first=10_000).records(log) if each.topic == "orders"]
    producer = AIOKafkaProducer(bootstrap_servers=hosts, transactional_id=f"{options.prefix}aborted")
    await producer.start()
    try:
        await producer.begin_transaction()
        for each in records:
            place = {"partition": each.partition, "timestamp_ms": each.timestamp_ms, "headers": headers_of(each)}
            await producer.send_and_wait(options.prefix + each.topic, each.value, key=each.key, **place)
        await producer.abort_transaction()
    finally:
        await producer.stop()


def _orders_are_read(url: str) -> bool:
    return asyncio.run(is_read(url, "order"))
