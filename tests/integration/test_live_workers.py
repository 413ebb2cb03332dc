"""Several workers of one service's views: any of them answers for all; and views that begin anew."""

import asyncio
import json
from functools import partial
from pathlib import Path
from secrets import token_hex

import pytest
from aiokafka import AIOKafkaProducer

from eventlib import open_log
from eventlib.broker import Cluster
from eventlib.log.kafka.batches import headers_of
from eventlib.log.kafka.options import parse_url
from services import shop as the_shop
from tests.integration.live_answers import History, customers
from tests.integration.live_log import Story, is_read, told
from tests.integration.live_worker import LiveWorker, reset
from tests.saga.shop_runs import ShopLog


@pytest.mark.slow
def test_any_worker_answers_and_a_reset_computes_the_same(tmp_path: Path, broker: Cluster) -> None:
    shop = ShopLog(tmp_path, f"{broker.url}/?prefix={token_hex(4)}.")
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
