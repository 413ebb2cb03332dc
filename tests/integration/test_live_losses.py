"""Live views on a real broker name what was gone before they have read it."""

import asyncio
import re
from functools import partial
from pathlib import Path
from secrets import token_hex

import pytest
from aiokafka import TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, RecordsToDelete

from eventlib import open_log
from eventlib.devtools.kafka import Cluster
from eventlib.log.kafka.options import parse_url
from services import shop
from tests.integration.live_log import Story, is_read, told
from tests.integration.live_worker import LiveWorker, reset

ORDERS = next(topic for topic in shop.topics if topic.name == "orders")


async def ends(url: str) -> dict[int, int]:
    async with open_log(url, shop, read_only=True) as log:
        return {number: await log.port.end("orders", number) for number in range(ORDERS.partitions)}


async def made_again(url: str) -> None:
    async with open_log(url, shop) as log:
        await log.port.delete_topics(["orders"])
        await log.port.create_topics([ORDERS])


async def dropped(broker: Cluster, url: str, before: dict[int, int]) -> None:
    """Drop what is before these offsets, as retention does."""
    admin = AIOKafkaAdminClient(bootstrap_servers=broker.bootstrap)
    await admin.start()
    name = parse_url(url)[1].prefix + "orders"
    await admin.delete_records({TopicPartition(name, n): RecordsToDelete(before_offset=at) for n, at in before.items()})
    await admin.close()


@pytest.mark.extended
def test_what_is_gone_while_views_rest_or_run_is_named_until_they_are_reset(tmp_path: Path, broker: Cluster) -> None:
    url = f"{broker.url}/?prefix={token_hex(4)}."
    asyncio.run(told(url, Story(20, seed=1)))
    with LiveWorker(url, tmp_path, "order") as worker:
        has_read = partial(_has_read, url)
        worker.wait(has_read, "the end of the inputs")
        assert worker.lost("order") == []
        worker.stop()
        first = asyncio.run(ends(url))
        asyncio.run(told(url, Story(20, seed=2, first=20)))
        to = asyncio.run(ends(url))
        asyncio.run(dropped(broker, url, to))
        gone = {f"orders/{n}" for n in to if 0 < first[n] < to[n]}
        worker.start()
        worker.wait(lambda: {each.partition(":")[0] for each in worker.lost("order")} >= gone, "all losses")
        for number, at in to.items():  # the group is before the mark of the last transaction that it has read
            if f"orders/{number}" in gone:
                named = rf"orders/{number}: offsets ({first[number]}|{first[number] - 1}) to {at - 1} were dropped"
                assert any(re.match(named, each) for each in worker.lost("order")), worker.lost("order")
        sample = "eventlib_live_records_lost_total", frozenset({("service", "order"), ("topic", "orders")})
        worker.wait(lambda: worker.samples().get(sample, 0) > 0, "the metric")
        before = worker.lost("order")
        worker.stop()
        worker.start()
        worker.wait(lambda: worker.lost("order") == before, "what it noted")
        worker.wait(has_read, "the end of the inputs")
        asyncio.run(made_again(url))
        again = "orders: the topic was deleted and created again, and what it had is gone"
        worker.wait(lambda: again in worker.lost("order"), "the topic's other identity")
        worker.stop()
        worker.wait(lambda: reset(url, tmp_path, "order").returncode == 0, "an end of the group")
        worker.start()
        worker.wait(has_read, "the end of the inputs")
        assert worker.lost("order") == []


def _has_read(url: str) -> bool:
    return asyncio.run(is_read(url, "order"))
