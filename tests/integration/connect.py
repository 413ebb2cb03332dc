"""Kafka Connect's own runtime with the configurations of deploy/connect: jars from Maven Central, held to pinned sums."""

import os
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from eventlib.devtools.kafka.jars import KAFKA, JarSet
from eventlib.devtools.kafka.java import Java, find_java

DEPLOY = Path(__file__).parents[2] / "deploy" / "connect"
CONNECT = JarSet("Kafka Connect", "kafka-connect", "connect-runtime", DEPLOY / "jars.lock")
DEBEZIUM = JarSet("Debezium", "debezium", "debezium-connector-postgres", DEPLOY / "debezium.lock")
_OPTIONS = ("-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn")


def has_compiler() -> bool:
    """Tell whether the converter can be compiled here."""
    return find_java().tool("javac").exists()


@contextmanager
def connect(
    directory: Path, connectors: list[str], environment: Mapping[str, str], *plugins: JarSet
) -> Iterator[Callable[[], None]]:
    """Run a worker with connectors of deploy/connect, by their names, and the plugins that they are in.

    What is given refuses, with what it has said, a worker that has ended, or a task that has failed.
    """
    java = find_java()
    jars = ":".join(f"{each.fetched(java, each.default_place())}/*" for each in (CONNECT, KAFKA))
    place = directory / "plugins"
    _compile_converter(java, place / "converter", jars)
    for each in plugins:
        if not (place / each.name).exists():
            (place / each.name).symlink_to(each.fetched(java, each.default_place()))
    settings, said = directory / "worker.properties", directory / "connect.log"
    told = (DEPLOY / "worker.properties").read_text(encoding="utf-8")
    settings.write_text(f"{told}plugin.path={place}\n", encoding="utf-8")
    main = "org.apache.kafka.connect.cli.ConnectStandalone"
    files = [str(settings), *(str(DEPLOY / f"{name}.json") for name in connectors)]
    with said.open("w", encoding="utf-8") as out:
        worker = subprocess.Popen(
            [str(java.executable), *_OPTIONS, "-cp", jars, main, *files],
            env={**os.environ, **environment, "CONNECT_OFFSETS": str(directory / "connect.offsets")},
            stdout=out,
            stderr=out,
        )

    def check() -> None:
        told = said.read_text(encoding="utf-8")
        assert worker.poll() is None, told[-5_000:]
        assert " ERROR " not in told, told[-5_000:]

    try:
        yield check
        check()
    finally:
        worker.terminate()
        try:
            worker.wait(120)
        except subprocess.TimeoutExpired:
            worker.kill()
            worker.wait()


def _compile_converter(java: Java, place: Path, jars: str) -> None:
    source = DEPLOY / "converter" / "EventConverter.java"
    subprocess.run([java.tool("javac"), "-proc:none", "-d", place, "-cp", jars, source], check=True)
