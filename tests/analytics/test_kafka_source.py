"""The log on a real broker is the same DataFrame as the one in a file."""

from collections import Counter
from datetime import UTC, timedelta
from pathlib import Path
from secrets import token_hex

import pytest
from pyspark.sql import Row, SparkSession

import analytics
from analytics.audit import audit
from analytics.kafka import client_options
from eventlib.devtools.kafka import Cluster, ClusterConfig, running_cluster
from eventlib.devtools.kafka.security import Sasl, Security
from eventlib.errors import LogUnavailable
from eventlib.log.kafka.log import KafkaLog
from eventlib.log.kafka.options import parse_url
from eventlib.model.record import Record
from eventlib.model.topic import Topic
from tests.analytics.repairs import PartSent
from tests.analytics.sources import REPAIRS, moved_to

RENUMBERED = "_schemas"  # `eventlib copy` leaves no gaps in it


@pytest.fixture(scope="module")
def moved(broker: Cluster, repair_log: str) -> str:
    """The same repairs on Kafka."""
    url = f"{broker.url}/?prefix={token_hex(4)}."
    return moved_to(url, repair_log)


def contents(rows: list[Row]) -> list[tuple[object, ...]]:
    """Return rows in order, without offsets where a copy has others."""
    shown = [row.asDict(recursive=True) for row in rows]
    for row in shown:
        if row["topic"] == RENUMBERED:
            row["offset"] = None
    return sorted((tuple(map(str, row.values())) for row in shown), key=str)


def test_the_log_is_the_same_as_in_a_file(spark: SparkSession, repair_log: str, moved: str) -> None:
    topics = ["_schemas", "repairs", "workshop.journal"]
    there, here = (analytics.log(spark, url, topics=topics) for url in (moved, repair_log))
    assert there.schema.simpleString() == here.schema.simpleString()
    assert contents(there.collect()) == contents(here.collect())


def test_it_is_narrowed_by_the_same_words(spark: SparkSession, repair_log: str, moved: str) -> None:
    both = ["_schemas", "parts"]
    rows = analytics.log(spark, repair_log, topics=both).select("recorded_at").collect()
    times = sorted(row[0].replace(tzinfo=UTC) for row in rows)
    since, until = times[len(times) // 3], times[-1]
    halves = {place: len(span) // 2 for place, span in analytics.spans(repair_log).items() if place[0] == "parts"}
    for only, expected in (
        (analytics.Only(topics=both, since=since, until=until), None),
        (analytics.Only(types=["RepairDone", "RepairGivenUp"], topics=["repairs"]), 7),
        (analytics.Only(topics=["parts"], begin=halves, end={place: 2 * end for place, end in halves.items()}), None),
        (analytics.Only(topics=["no such topic"]), 0),
        (analytics.Only(topics=["parts"], since=times[-1] + timedelta(days=1)), 0),
    ):
        there, here = (contents(analytics.log(spark, url, **only).collect()) for url in (moved, repair_log))
        assert there == here, only
        assert here if expected is None else len(here) == expected, only


def test_events_are_the_same(spark: SparkSession, repair_log: str, moved: str) -> None:
    there, here = (analytics.events(spark, url, PartSent) for url in (moved, repair_log))
    assert sorted(there.drop("schema_id", "value").collect()) == sorted(here.drop("schema_id", "value").collect())


async def test_what_is_not_committed_is_not_in_it_and_later_records_neither(
    spark: SparkSession, kafka_url: str
) -> None:
    log = await KafkaLog.open(kafka_url)
    await log.create_topics([Topic("facts", partitions=2)])
    claim = await log.seize("teller", 0)
    odd = Record("facts", 0, -1, 5, b"k", b"odd", id="i", type="T", headers=(("a", b"\xff"), ("a", b"")))
    await log.append([Record("facts", 0, -1, 1, None, None), odd], claim)
    frame = analytics.log(spark, kafka_url, topics=["facts"])
    await log.append([Record("facts", 1, -1, 9, b"late", b"late")], claim)
    (first, second) = sorted(frame.collect())
    assert (first["key"], first["value"], first["headers"]) == (None, None, [])
    assert [(name, bytes(value)) for name, value in second["headers"]] == [("a", b"\xff"), ("a", b"")]
    assert (second["id"], second["type"], second["sequence"]) == ("i", "T", None)
    assert frame.count() == 2
    assert analytics.log(spark, kafka_url, topics=["facts"]).count() == 3
    await log.close()


@pytest.mark.extended
def test_a_cluster_that_asks_for_names_and_certificates_is_read_and_audited(
    spark: SparkSession, repair_log: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Workers open the log, too; they were started before anything was known of it."""
    with running_cluster(ClusterConfig(security=Security(tls=True, sasl=Sasl.SCRAM))) as cluster:
        for name, value in cluster.environment().items():
            monkeypatch.setenv(name, value)
        url = moved_to(cluster.url, repair_log)
        there, here = (analytics.log(spark, each, topics=["repairs"]) for each in (url, repair_log))
        assert contents(there.collect()) == contents(here.collect())
        found = [Counter(row["rule"] for row in audit(spark, each, REPAIRS).collect()) for each in (url, repair_log)]
        assert found[0] == found[1]


def test_no_broker_is_said_before_anything_runs(spark: SparkSession) -> None:
    with pytest.raises(LogUnavailable):
        analytics.log(spark, "kafka://127.0.0.1:1/?request_timeout_s=1")


def test_a_password_is_quoted_for_java(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EVENTLIB_KAFKA_PASSWORD", 'a"b\\c')
    options = client_options(*parse_url("kafka://h:1/?sasl=PLAIN&user=u"))
    assert options["kafka.sasl.jaas.config"].endswith('username="u" password="a\\"b\\\\c";')
    assert options["kafka.security.protocol"] == "SASL_PLAINTEXT"


def test_a_certificate_is_sent_as_its_content(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text("a certificate")
    monkeypatch.setenv("EVENTLIB_KAFKA_TLS_CA", str(tmp_path / "ca.pem"))
    options = client_options(*parse_url("kafka://h:1/?tls=true"))
    assert options["kafka.ssl.truststore.certificates"] == "a certificate"
    assert options["kafka.security.protocol"] == "SSL"
