"""Programs on Kafka Streams: its jars are fetched once, as the broker's are, and our sources compiled with the JDK at hand."""

import subprocess
import tempfile
from pathlib import Path

from eventlib.devtools.kafka.jars import KAFKA, JarSet
from eventlib.devtools.kafka.java import find_java
from eventlib.errors import BrokerFailed

STREAMS = JarSet("Kafka Streams", "kafka-streams", "kafka-streams", Path(__file__).with_name("jars.lock"))
_HERE = Path(__file__).parent
_CLASSES = Path(__file__).resolve().parents[2] / "build" / "kafka-streams"
_OPTIONS = ("-Xmx1g", "-XX:+UseSerialGC", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn")


def java_command(main: str, *options: str) -> list[str]:
    """Return the command that runs a class of this directory, which is compiled; arguments come after it.

    Raises: BrokerFailed without a JDK, or when the jars cannot be fetched.
    """
    java = find_java()
    places = [each.fetched(java, each.default_place()) for each in (STREAMS, KAFKA)]
    jars = ":".join(f"{place}/*" for place in places)
    compiler = java.tool("javac")
    if not compiler.exists():
        raise BrokerFailed(f"{java.executable} cannot compile: name a JDK with JAVA_HOME")
    _CLASSES.parent.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=_CLASSES.parent) as scratch:
        subprocess.run(
            [compiler, "-proc:none", "-d", scratch, "-cp", jars, "-sourcepath", _HERE, _HERE / f"{main}.java"],
            check=True,
        )
        _CLASSES.mkdir(exist_ok=True)
        for compiled in Path(scratch).iterdir():
            compiled.replace(_CLASSES / compiled.name)
    return [str(java.executable), *_OPTIONS, *options, "-cp", f"{_CLASSES}:{jars}", main]
