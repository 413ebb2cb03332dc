"""Several workers of one service's views: any of them answers for all; and views that begin anew."""

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
from services import shop as the_shop
from tests.integration.live_answers import History, customers
from tests.integration.live_log import Story, is_read, told
from tests.integration.live_worker import LiveWorker, reset
from tests.saga.shop_runs import ShopLog

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
        one.wait(partial(_has_read, shop.url), "the end of the inputs")
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
            one.wait(partial(_has_read, shop.url), "the end of the inputs")
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
        worker.wait(partial(_has_read, shop.url), "the end of the inputs")
        for seed in range(6, 26):
            with worker.paused():
                asyncio.run(told(shop.url, Story(10, seed=seed, first=1_000 * seed)))
                time.sleep(7)
            worker.wait(partial(_has_read, shop.url), "the end of the inputs")
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


def _has_read(url: str) -> bool:
    return asyncio.run(is_read(url, "order"))
