"""Spark's connectors for Avro and Kafka: not in its Python package, so fetched once, as the broker's jars are."""

from pathlib import Path

from eventlib.broker.jars import JarSet
from eventlib.broker.java import Java

CONNECTORS = JarSet("Spark's connectors", "spark-connectors", "spark-avro_2.13", Path(__file__).with_name("jars.lock"))


def connectors(java: Java, *, fetch: bool) -> list[Path]:
    """Return the connectors' jars; none when they are not on this machine and not to be fetched.

    Raises: BrokerFailed when they cannot be fetched.
    """
    place = CONNECTORS.default_place()
    if fetch:
        CONNECTORS.fetched(java, place)
    elif not CONNECTORS.is_at(place):
        return []
    return [place / jar.file for jar in CONNECTORS.pinned()]
