"""`eventlib doctor` on real brokers: each fault is made for real, and found with what to do."""

import asyncio
import logging
import secrets
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from aiokafka.admin import AIOKafkaAdminClient, NewTopic

from eventlib.devtools.kafka import Cluster
from eventlib.log.kafka.log import KafkaLog
from eventlib.model.record import Record
from eventlib.operations.doctor.examination import examine as examine_here
from eventlib.registry.records import SCHEMAS
from eventlib.values import now_ms
from services import shop

_EXISTS = 36
"""Kafka's code for a topic that is there already."""

Examine = Callable[[Path | str], list[dict[str, Any]]]


@pytest.fixture
def log_url(broker: Cluster) -> str:
    return f"{broker.url}/?prefix={secrets.token_hex(4)}."


def test_a_cluster_with_nothing_wrong(examine: Examine, broker: Cluster, log_url: str) -> None:
    found = examine(log_url)
    checks = ["brokers", "listeners", "version", "clock", "rights", "local stores", "topics", "times", "keys"]
    assert [(each["check"], each["verdict"]) for each in found] == [(check, "ok") for check in checks]
    assert broker.cluster_id in found[2]["what"]
    assert "transaction.version 2" in found[2]["what"]


def test_addresses_where_no_broker_is(examine: Examine, broker: Cluster) -> None:
    for url, expected in {
        "kafka://127.0.0.1:1": "nothing listens at 127.0.0.1:1 (Connection refused)",
        "kafka://no.such.host.invalid:9092": "the name no.such.host.invalid cannot be resolved",
        f"kafka://127.0.0.1:{broker.nodes[0].ports.controller}": "does not support the requests of clients",
    }.items():
        found = examine(url)
        assert [each["check"] for each in found] == ["brokers", "local stores"]
        assert found[0]["verdict"] == "error"
        assert expected in found[0]["what"]
    (found_one,) = faults(examine(f"kafka://127.0.0.1:1,{broker.bootstrap}/?prefix=none."))
    assert (found_one["check"], found_one["verdict"]) == ("brokers", "warning")


def test_another_program_at_the_address(examine: Examine) -> None:
    with socket.create_server(("127.0.0.1", 0)) as mute:
        (found, _) = examine(f"kafka://127.0.0.1:{mute.getsockname()[1]}/?request_timeout_s=2")
    assert "does not answer as a Kafka broker does" in found["what"]


def test_an_advertised_address_that_leads_nowhere(examine: Examine, tmp_path: Path) -> None:
    cluster = Cluster.create(tmp_path)
    node = cluster.nodes[0]
    right = node.properties.read_text("utf-8")
    advertised = f"advertised.listeners=CLIENT://127.0.0.1:{node.ports.client}"
    assert advertised in right
    node.properties.write_text(right.replace(advertised, "advertised.listeners=CLIENT://127.0.0.1:1"), "utf-8")
    try:
        cluster.start()
        (found,) = faults(examine(cluster.url))
    finally:
        cluster.destroy()
    assert (found["check"], found["verdict"]) == ("listeners", "error")
    assert found["what"].startswith("broker 1 advertises 127.0.0.1:1: nothing listens")
    assert "advertised.listeners" in found["remedy"]


async def test_settings_that_are_not_as_they_should_be(broker: Cluster, log_url: str) -> None:
    prefix = log_url.rpartition("=")[2]
    await make_topics(
        broker,
        NewTopic(f"{prefix}orders", 8, 1, topic_configs={"message.timestamp.type": "LogAppendTime"}),
        NewTopic(f"{prefix}stock", 8, 1, topic_configs={"unclean.leader.election.enable": "true"}),
    )
    said = {(each.verdict, each.what) for each in await examine_here(log_url, shop, "var/state")}
    for verdict, expected in (
        ("error", f"{prefix}orders: message.timestamp.type=LogAppendTime"),
        ("warning", f"{prefix}stock: unclean.leader.election.enable=true"),
    ):
        assert any(verdict == each and what.startswith(expected) for each, what in said), (expected, said)


@pytest.mark.extended
async def test_topics_that_are_not_as_they_should_be(three_brokers: Cluster) -> None:
    await make_topics(
        three_brokers,
        NewTopic("orders", 8, 3, topic_configs={"message.timestamp.type": "LogAppendTime", "min.insync.replicas": "2"}),
        NewTopic("stock", 3, 3, topic_configs={"min.insync.replicas": "3"}),
        NewTopic("payments", 8, 1, topic_configs={"retention.ms": "-1", "max.message.bytes": "1065536"}),
        NewTopic("dispatches", 8, 3, topic_configs={"unclean.leader.election.enable": "true"}),
    )
    three_brokers.kill(2)
    try:
        url = ",".join(f"127.0.0.1:{three_brokers.node(number).ports.client}" for number in (1, 3))
        found = await examine_here(f"kafka://{url}", shop, "var/state")  # one that has died is listed for some seconds
        while any(each.check == "listeners" and each.verdict != "ok" for each in found):
            await asyncio.sleep(1)
            found = await examine_here(f"kafka://{url}", shop, "var/state")
    finally:
        three_brokers.restart(2)
    said = {(each.verdict, each.what) for each in found if each.check == "topics"}
    for verdict, expected in (
        ("error", "orders: message.timestamp.type=LogAppendTime"),
        ("error", "stock: 2 of 3 replicas are in sync, and an append needs 3"),
        ("warning", "stock: min.insync.replicas=3 with as many replicas"),
        ("warning", "dispatches: unclean.leader.election.enable=true"),
        ("warning", "orders, dispatches: 2 of 3 replicas are in sync"),
    ):
        assert any(verdict == each and expected in what for each, what in said), (expected, said)


async def test_topics_that_differ_from_their_declaration(broker: Cluster, log_url: str) -> None:
    prefix = log_url.rpartition("=")[2]
    await make_topics(broker, NewTopic(f"{prefix}stock.lines", 3, 1), NewTopic(f"{prefix}orders", 8, 1))
    found = [each for each in await examine_here(log_url, shop, "var/state") if each.verdict != "ok"]
    assert any("'stock.lines' has 3 partitions on the log, but is declared with 8" in each.what for each in found)
    (orders,) = [each for each in found if "'orders'" in each.what]
    assert (orders.check, orders.verdict) == ("topics", "warning")
    assert "retention is 7 days, 0:00:00, declared None" in orders.what
    assert {each for each in await topics_on(broker) if each.startswith(prefix)} == {
        f"{prefix}stock.lines",
        f"{prefix}orders",
    }


@pytest.mark.extended
async def test_clocks_that_do_not_agree(log_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    log = await KafkaLog.open(log_url)
    try:
        await log.create_topics([*shop.topics, SCHEMAS])
        await log.append([Record("orders", 3, -1, now_ms() + 600_000, b"1", b"")])
    finally:
        await log.close()
    (found,) = [each for each in await examine_here(log_url, shop, "var/state") if each.verdict != "ok"]
    assert (found.check, found.verdict) == ("times", "warning")
    assert "events on orders are from the future" in found.what
    for ahead_ms, verdict in ((10_000, "warning"), (-3_600_000, "error")):
        monkeypatch.setattr("eventlib.log.kafka.admin.now_ms", lambda ahead_ms=ahead_ms: now_ms() + ahead_ms)
        (clock,) = [each for each in await examine_here(log_url, shop, "var/state") if each.check == "clock"]
        assert (clock.verdict, "behind" in clock.what) == (verdict, ahead_ms > 0)


async def topics_on(cluster: Cluster) -> list[str]:
    client = AIOKafkaAdminClient(bootstrap_servers=cluster.bootstrap)
    await client.start()
    try:
        found: list[str] = await client.list_topics()
    finally:
        await client.close()
    return found


async def make_topics(cluster: Cluster, *topics: NewTopic) -> None:
    """Make topics, and wait until clients see them: a busy broker refuses some at first, or shows them later."""
    admin = AIOKafkaAdminClient(bootstrap_servers=cluster.bootstrap)
    await admin.start()
    try:
        async with asyncio.timeout(120):
            while missing := [each for each in topics if each.name not in await admin.list_topics()]:
                answer = await admin.create_topics(missing)
                refused = [str(error) for _, code, error in answer.topic_errors if code not in {0, _EXISTS}]
                if refused:
                    logging.getLogger(__name__).warning("not made yet: %s", refused)
                await asyncio.sleep(0.1)
    finally:
        await admin.close()


def faults(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [each for each in found if each["verdict"] != "ok"]
