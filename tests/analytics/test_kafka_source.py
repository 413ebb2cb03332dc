"""The log on a real broker is the same DataFrame as the one in a file."""

from datetime import UTC, timedelta
from secrets import token_hex

import pytest
from pyspark.sql import Row, SparkSession

import analytics
from analytics.kafka_options import client_options
from eventlib.devtools.kafka import Cluster, ClusterConfig, running_cluster
from eventlib.devtools.kafka.security import Sasl, Security
from eventlib.errors import LogUnavailable
from eventlib.log.kafka.log import KafkaLog
from eventlib.log.kafka.options import parse_url
from eventlib.log.record import Record
from eventlib.model.topic import Topic
from services.order.events import OrderPlaced
from tests.analytics.sources import moved_to

RENUMBERED = "_schemas"  # `eventlib copy` leaves no gaps in it


@pytest.fixture(scope="module")
def moved(broker: Cluster, shop_log: str) -> str:
    """The same shop on Kafka."""
    url = f"{broker.url}/?prefix={token_hex(4)}."
    return moved_to(url, shop_log)


def contents(rows: list[Row]) -> list[tuple[object, ...]]:
    """Return rows in order, without offsets where a copy has others."""
    shown = [row.asDict(recursive=True) for row in rows]
    for row in shown:
        if row["topic"] == RENUMBERED:
            row["offset"] = None
    return sorted((tuple(map(str, row.values())) for row in shown), key=str)


def test_the_log_is_the_same_as_in_a_file(spark: SparkSession, shop_log: str, moved: str) -> None:
    topics = ["_schemas", "orders", "payment.journal"]
    there, here = (analytics.log(spark, url, topics=topics) for url in (moved, shop_log))
    assert there.schema.simpleString() == here.schema.simpleString()
    assert contents(there.collect()) == contents(here.collect())


def test_it_is_narrowed_by_the_same_words(spark: SparkSession, shop_log: str, moved: str) -> None:
    times = sorted(row[0].replace(tzinfo=UTC) for row in analytics.log(spark, shop_log).select("recorded_at").collect())
    since, until = times[len(times) // 3], times[2 * len(times) // 3]
    quarters = {place: len(span) // 4 for place, span in analytics.spans(shop_log).items() if place[0] == "stock"}
    for only in (
        analytics.Only(topics=["_schemas", "stock"], since=since, until=until),
        analytics.Only(types=["OrderCompleted", "OrderCancelled"], topics=["orders"]),
        analytics.Only(topics=["stock"], begin=quarters, end={place: 2 * end for place, end in quarters.items()}),
        analytics.Only(topics=["no such topic"]),
        analytics.Only(topics=["orders"], since=times[-1] + timedelta(days=1)),
    ):
        there, here = analytics.log(spark, moved, **only), analytics.log(spark, shop_log, **only)
        assert contents(there.collect()) == contents(here.collect()), only


def test_events_are_the_same(spark: SparkSession, shop_log: str, moved: str) -> None:
    there, here = (analytics.events(spark, url, OrderPlaced) for url in (moved, shop_log))
    assert sorted(there.drop("schema_id", "value").collect()) == sorted(here.drop("schema_id", "value").collect())


async def test_what_is_not_committed_is_not_in_it_and_later_records_neither(
    spark: SparkSession, broker: Cluster
) -> None:
    url = f"{broker.url}/?prefix={token_hex(4)}."
    log = await KafkaLog.open(url)
    await log.create_topics([Topic("facts", partitions=2)])
    claim = await log.seize("teller", 0)
    odd = Record("facts", 0, -1, 5, b"k", b"odd", id="i", type="T", headers=(("a", b"\xff"), ("a", b"")))
    await log.append([Record("facts", 0, -1, 1, None, None), odd], claim)
    frame = analytics.log(spark, url, topics=["facts"])
    await log.append([Record("facts", 1, -1, 9, b"late", b"late")], claim)
    (first, second) = sorted(frame.collect())
    assert (first["key"], first["value"], first["headers"]) == (None, None, [])
    assert [(name, bytes(value)) for name, value in second["headers"]] == [("a", b"\xff"), ("a", b"")]
    assert (second["id"], second["type"], second["sequence"]) == ("i", "T", None)
    assert frame.count() == 2
    assert analytics.log(spark, url, topics=["facts"]).count() == 3
    await log.close()


async def test_a_cluster_that_asks_for_names_and_certificates_is_read(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    with running_cluster(ClusterConfig(security=Security(tls=True, sasl=Sasl.SCRAM))) as cluster:
        for name, value in cluster.environment().items():
            monkeypatch.setenv(name, value)
        log = await KafkaLog.open(cluster.url)
        await log.create_topics([Topic("facts", partitions=1)])
        await log.append([Record("facts", 0, -1, 1, b"k", b"v")])
        await log.close()
        assert analytics.log(spark, cluster.url, topics=["facts"]).count() == 1


def test_no_broker_is_said_before_anything_runs(spark: SparkSession) -> None:
    with pytest.raises(LogUnavailable):
        analytics.log(spark, "kafka://127.0.0.1:1/?request_timeout_s=1")


def test_a_password_is_quoted_for_java(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EVENTLIB_KAFKA_PASSWORD", 'a"b\\c')
    options = client_options(*parse_url("kafka://h:1/?sasl=PLAIN&user=u"))
    assert options["kafka.sasl.jaas.config"].endswith('username="u" password="a\\"b\\\\c";')
    assert options["kafka.security.protocol"] == "SASL_PLAINTEXT"
