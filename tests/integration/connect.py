"""Kafka Connect's own runtime with the configurations of deploy/connect: jars from Maven Central, held to pinned sums."""

import os
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from eventlib.broker.jars import KAFKA, JarSet
from eventlib.broker.java import Java, find_java

DEPLOY = Path(__file__).parents[2] / "deploy" / "connect"
CONNECT = JarSet("Kafka Connect", "kafka-connect", "connect-runtime", DEPLOY / "jars.lock")
_OPTIONS = ("-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn")


def has_compiler() -> bool:
    """Tell whether the converter can be compiled here."""
    return find_java().tool("javac").exists()


@contextmanager
def connect(directory: Path, connectors: list[str], environment: Mapping[str, str]) -> Iterator[Callable[[], None]]:
    """Run a worker with connectors of deploy/connect, by their names.

    What is given refuses, with what it has said, a worker that has ended, or a task that has failed.
    """
    java = find_java()
    jars = ":".join(f"{each.fetched(java, each.default_place())}/*" for each in (CONNECT, KAFKA))
    classes = _converter(java, directory, jars)
    said = directory / "connect.log"
    main = "org.apache.kafka.connect.cli.ConnectStandalone"
    files = [str(DEPLOY / "worker.properties"), *(str(DEPLOY / f"{name}.json") for name in connectors)]
    with said.open("w", encoding="utf-8") as out:
        worker = subprocess.Popen(
            [str(java.executable), *_OPTIONS, "-cp", f"{classes}:{jars}", main, *files],
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
            worker.wait(30)
        except subprocess.TimeoutExpired:
            worker.kill()
            worker.wait()


def _converter(java: Java, directory: Path, jars: str) -> Path:
    classes = directory / "classes"
    classes.mkdir()
    source = DEPLOY / "converter" / "EventConverter.java"
    subprocess.run([java.tool("javac"), "-proc:none", "-d", classes, "-cp", jars, source], check=True)
    return classes
