"""A Kafka log as a DataFrame, with Spark's own connector."""

import asyncio
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, DataFrameReader, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.streaming.readwriter import DataStreamReader

from analytics.asking import ask, spans_of
from analytics.schema import HEADERS, STORED, key_as_text
from analytics.selection import Selection, narrowed
from eventlib.errors import WiringError
from eventlib.log.base import Log, TopicPartition
from eventlib.log.kafka.options import KafkaOptions, parse_url
from eventlib.values import to_ms

_TASKS_PER_CORE = 2

_ATTRIBUTES = {
    "type": "ce_type",
    "id": "ce_id",
    "source": "ce_source",
    "subject": "ce_subject",
    "correlation_id": "ce_correlationid",
    "causation_id": "ce_causationid",
    "traceparent": "traceparent",
}
_SEQUENCE = "ce_sequence"
_OURS = (*_ATTRIBUTES.values(), _SEQUENCE, "ce_specversion")


def read(spark: SparkSession, url: str, selection: Selection) -> DataFrame:
    """Return what `analytics.log` does, without schema ids.

    Guarantee: records that the brokers drop while a job reads make it fail, they are not skipped.
    Raises: LogUnavailable, LogDenied; WiringError without Spark's connector.
    """
    hosts, options = parse_url(url)
    spans = ask(url, lambda log: _spans(log, selection))
    if not spans:
        return spark.createDataFrame([], STORED)
    prefix = options.prefix
    source = {
        **client_options(hosts, options),
        "assign": json.dumps(_by_topic({place: place[1] for place in spans}, prefix, list)),
        "startingOffsets": json.dumps(_by_topic({place: span.start for place, span in spans.items()}, prefix, dict)),
        "endingOffsets": json.dumps(_by_topic({place: span.stop for place, span in spans.items()}, prefix, dict)),
        "includeHeaders": "true",
        "minPartitions": str(spark.sparkContext.defaultParallelism * _TASKS_PER_CORE),
    }
    return narrowed(_canonical(_loaded(spark.read, source), prefix), selection)


def stream(spark: SparkSession, url: str, topics: Sequence[str]) -> DataFrame:
    """Return the committed records of these topics, current and future, as a stream of Spark's connector.

    Topics created later are included from then on. Dropped records are skipped: a reader for whom that matters has to check.
    Raises: WiringError without Spark's connector.
    """
    hosts, options = parse_url(url)
    source = {
        **client_options(hosts, options),
        "subscribePattern": "|".join(re.escape(f"{options.prefix}{topic}") for topic in topics),
        "startingOffsets": "earliest",
        "failOnDataLoss": "false",
    }
    return _loaded(spark.readStream, source)


def ends_in_checkpoint(checkpoint: Path, batch: int, url: str) -> dict[TopicPartition, int]:
    """Return where a batch of a stream from one log ends, which Spark writes down before it runs the batch."""
    _, options = parse_url(url)
    *_, offsets = (checkpoint / "offsets" / str(batch)).read_text(encoding="utf-8").splitlines()
    return {
        (topic.removeprefix(options.prefix), int(partition)): end
        for topic, ends in json.loads(offsets).items()
        for partition, end in ends.items()
    }


def _loaded(reader: DataFrameReader | DataStreamReader, source: Mapping[str, str]) -> DataFrame:
    try:
        return reader.format("kafka").options(**source).load()
    except AnalysisException as error:
        raise WiringError(
            "this Spark session has no connector for Kafka: `python -m analytics connectors` downloads it once, and prints it for spark-submit --jars"
        ) from error


async def _spans(log: Log, selection: Selection) -> Mapping[TopicPartition, range]:
    found = await spans_of(log, selection.topics)
    if selection.since is not None:
        since = to_ms(selection.since)
        firsts = await asyncio.gather(*(log.offset_at(*place, since) for place in found))
        found = {place: range(first, found[place].stop) for place, first in zip(found, firsts, strict=True)}
    asked = {place: selection.span(place, span.start, span.stop) for place, span in found.items()}
    return {place: span for place, span in asked.items() if span is not None}


def _by_topic(
    values: Mapping[TopicPartition, int], prefix: str, kind: type[list[int]] | type[dict[str, int]]
) -> object:
    """Return values by topic, and within it by partition or as a list, in the connector's form."""
    found = dict[str, dict[str, int]]()
    for (topic, partition), value in values.items():
        found.setdefault(f"{prefix}{topic}", {})[str(partition)] = value
    return found if kind is dict else {topic: list(each.values()) for topic, each in found.items()}


def _canonical(records: DataFrame, prefix: str) -> DataFrame:
    columns = {
        "topic": f.substring("topic", len(prefix) + 1, 0x7FFF),
        "partition": f.col("partition"),
        "offset": f.col("offset"),
        "recorded_at": f.col("timestamp"),
        "key": key_as_text(f.col("key")),
        "sequence": _header(_SEQUENCE).try_cast("bigint"),
        "value": f.col("value"),
        "headers": _others().cast(HEADERS),
        **{name: _header(header) for name, header in _ATTRIBUTES.items()},
    }
    return records.select(*(columns[name].alias(name) for name in STORED.names))


def _headers() -> Column:
    return f.coalesce(f.col("headers"), f.array().cast("array<struct<key: string, value: binary>>"))


def _header(name: str) -> Column:
    """Return the text of a header; of the last one, if there are several."""
    found = f.filter(_headers(), lambda header: header["key"] == name)
    return f.try_element_at(found, f.lit(-1))["value"].cast("string")


def _others() -> Column:
    others = f.filter(_headers(), lambda header: ~header["key"].isin(*_OURS))
    return f.transform(
        others, lambda each: f.struct(each["key"].alias("name"), f.coalesce(each["value"], f.lit(b"")).alias("value"))
    )


_HANDLER = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler"
_LOGIN = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM-SHA-256": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "OAUTHBEARER": "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule",
}


def client_options(hosts: list[str], options: KafkaOptions) -> dict[str, str]:
    """Return Spark's options for a consumer. Raises: WiringError when a certificate cannot be read."""
    found = {
        "bootstrap.servers": ",".join(hosts),
        "security.protocol": ("SASL_" if options.sasl else "") + ("SSL" if options.tls else "PLAINTEXT"),
        "isolation.level": "read_committed",
        # The requested records exist already. At its end a consumer fetches more, and a broker that waits the default of 500 ms
        # for them delays the consumer's other requests: Spark makes two for each partition.
        "fetch.max.wait.ms": "10",
        **(_tls(options) if options.tls else {}),
        **(_sasl(options) if options.sasl else {}),
    }
    return {f"kafka.{name}": value for name, value in found.items()}


def _tls(options: KafkaOptions) -> dict[str, str]:
    """Return the TLS options: contents of files, so that executors need none."""
    found = dict[str, str]()
    try:
        if options.tls_ca is not None:
            found["ssl.truststore.type"] = "PEM"
            found["ssl.truststore.certificates"] = Path(options.tls_ca).read_text(encoding="ascii")
        if options.tls_cert is not None and options.tls_key is not None:
            found["ssl.keystore.type"] = "PEM"
            found["ssl.keystore.certificate.chain"] = Path(options.tls_cert).read_text(encoding="ascii")
            found["ssl.keystore.key"] = Path(options.tls_key).read_text(encoding="ascii")
    except (OSError, UnicodeError) as error:
        raise WiringError(f"the certificates of EVENTLIB_KAFKA_TLS_… cannot be used: {error}") from error
    if options.tls_key_password is not None:
        found["ssl.key.password"] = options.tls_key_password.get_secret_value()
    return found


def _sasl(options: KafkaOptions) -> dict[str, str]:
    mechanism: str = options.sasl or ""
    found = {"sasl.mechanism": mechanism}
    if mechanism == "OAUTHBEARER":
        secret = options.oauth_client_secret
        given = {"clientId": options.oauth_client_id, "clientSecret": secret and secret.get_secret_value()}
        given["scope"] = options.oauth_scope
        found["sasl.oauthbearer.token.endpoint.url"] = options.oauth_token_url or ""
        found["sasl.login.callback.handler.class"] = _HANDLER
    else:
        given = {"username": options.user, "password": options.password and options.password.get_secret_value()}
    words = "".join(f" {name}={_quoted(value)}" for name, value in given.items() if value)
    return {**found, "sasl.jaas.config": f"{_LOGIN[mechanism]} required{words};"}


def _quoted(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
