"""Spark's connectors for Avro, Kafka, Iceberg, Delta and object stores: its Python package lacks them, so they are downloaded when first needed."""

import os
from collections.abc import Collection
from importlib.util import find_spec
from pathlib import Path

from eventlib import command_line
from eventlib.command_line import fetched
from eventlib.devtools.kafka.jars import JarSet
from eventlib.devtools.kafka.java import Java, find_java
from eventlib.errors import BrokerFailed

AVRO = JarSet("Spark's connector for Avro", "spark-avro", "spark-avro_2.13", Path(__file__).with_name("avro.lock"))
"""Decodes events in the JVM; without it they are decoded in Python, which takes longer."""

KAFKA = JarSet(
    "Spark's connector for Kafka", "spark-kafka", "spark-sql-kafka-0-10_2.13", Path(__file__).with_name("kafka.lock")
)
"""Reads a log on Kafka; nothing else does."""

FORMATS = {
    "iceberg": JarSet(
        "Spark's connector for Iceberg",
        "spark-iceberg",
        "iceberg-spark-runtime-4.0_2.13",
        Path(__file__).with_name("iceberg.lock"),
    ),
    "delta": JarSet(
        "Spark's connector for Delta", "spark-delta", "delta-spark_2.13", Path(__file__).with_name("delta.lock")
    ),
    "s3a": JarSet("Spark's connector for S3", "spark-s3", "hadoop-aws", Path(__file__).with_name("s3.lock")),
}
"""Read and write tables of these formats, and on these stores; nothing else does."""


def fetch_needed(url: str, *, decoding: bool = True) -> None:
    """Download the connectors that a job on the log at `url` needs; `decoding` is whether it reads events' fields.

    A submitted job uses the jars given to spark-submit. Raises: BrokerFailed when the connector for Kafka cannot be
    downloaded; the one for Avro only saves time: without it there is a note on stderr.
    """
    if _is_submitted():
        return
    if url.startswith("kafka:") and not _is_sparks_own(KAFKA):
        fetched(KAFKA, find_java("Spark"))
    if decoding and not _is_sparks_own(AVRO):
        try:
            fetched(AVRO, find_java("Spark"))
        except BrokerFailed as error:
            command_line.warn(f"{error}. Until then events are decoded in Python, which takes longer.")


def fetch_for_formats(*names: str | None) -> list[str]:
    """Download what tables of formats and on stores need, and return those that need anything: what a session is made with.

    Raises: BrokerFailed when it cannot be downloaded.
    """
    needed = [name for name in names if name in FORMATS]
    for name in needed:
        if not _is_submitted() and not _is_sparks_own(FORMATS[name]):
            fetched(FORMATS[name], find_java("Spark"))
    return needed


def connectors(java: Java, *, fetch: bool, formats: Collection[str] = ()) -> list[Path]:
    """Return the connectors' jars on this machine, except those among Spark's own, which every session has.

    `formats` are those of tables, and `s3a`. `fetch` downloads missing ones. Raises: BrokerFailed when they cannot be downloaded.
    """
    wanted = [each for each in (AVRO, KAFKA, *map(FORMATS.__getitem__, formats)) if not _is_sparks_own(each)]
    places = {each: fetched(each, java) if fetch else each.default_place() for each in wanted}
    return [place / jar.file for each, place in places.items() if each.is_at(place) for jar in each.pinned()]


def _is_submitted() -> bool:
    return "PYSPARK_GATEWAY_PORT" in os.environ


def _is_sparks_own(connector: JarSet) -> bool:
    home, package = os.environ.get("SPARK_HOME"), find_spec("pyspark")
    places = [home] if home else (package.submodule_search_locations if package else None) or []
    return any(all((Path(place) / "jars" / jar.file).exists() for jar in connector.pinned()) for place in places)
