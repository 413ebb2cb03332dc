"""A standalone Spark cluster on this machine: a master and workers, each a process of its own, on loopback and free ports."""

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from zipfile import ZipFile

from analytics.connectors import connectors
from analytics.java_home import java_home
from eventlib.devtools.kafka.java import find_java
from tests.analytics.sources import ROOT

SPARK = Path((find_spec("pyspark") or sys).submodule_search_locations[0])  # type: ignore[index]
_STARTS_S = 300
_LONGEST_S = 1_800
"""More than a job takes on a busy machine: who waits longer has found one that hangs."""

# Its standard input ends with whoever has begun it, however that ends.
_UNTIL_STDIN_ENDS = '"$@" & read _; kill -9 $!'


@dataclass(frozen=True)
class SparkCluster:
    """Where it is, and the code that its jobs bring along."""

    master: str
    code: Path
    directory: Path

    def command(self, *arguments: str, formats: Sequence[str] = ()) -> list[str]:
        """Return how spark-submit runs a command of the analytics."""
        jars = ",".join(map(str, connectors(find_java(), fetch=True, formats=formats)))
        options = ["--master", self.master, "--py-files", str(self.code), "--jars", jars]
        return [str(SPARK / "bin/spark-submit"), *options, str(ROOT / "analytics/submit.py"), *arguments]

    def submit(self, *arguments: str, formats: Sequence[str] = ()) -> "subprocess.CompletedProcess[str]":
        """Run a command of the analytics by spark-submit, from the cluster's directory."""
        return subprocess.run(
            self.command(*arguments, formats=formats),
            cwd=self.directory,
            env=environment(),
            capture_output=True,
            text=True,
            check=False,
            timeout=_LONGEST_S,
        )


@contextmanager
def spark_cluster(directory: Path, workers: int = 2) -> Iterator[SparkCluster]:
    """Run a cluster whose workers have the packages that ours need, and of ours what a job brings along."""
    code = directory / "code.zip"
    with ZipFile(code, "w") as bundle:
        for package in ("analytics", "eventlib", "services"):
            for path in (ROOT / package).rglob("*"):
                if path.is_file() and "__pycache__" not in path.parts:
                    bundle.write(path, path.relative_to(ROOT))
        bundle.writestr("brought_along.py", "from services import shop\n\n__all__ = ['shop']\n")
    with ExitStack() as stack:
        name = "org.apache.spark.deploy.master.Master"
        master = stack.enter_context(_running(directory / "master.log", [name, "--port", "0"]))
        url = _awaited(master, r"Starting Spark master at (spark://\S+)")
        for number in range(workers):
            where = directory / f"worker{number}"
            options = ["--port", "0", "--cores", "1", "--memory", "1g", "--work-dir", str(where), url]
            command = ["org.apache.spark.deploy.worker.Worker", *options]
            worker = stack.enter_context(_running(directory / f"worker{number}.log", command))
            _awaited(worker, r"Successfully registered with master (\S+)")
        yield SparkCluster(url, code, directory)


def environment() -> Mapping[str, str]:
    """What a machine of the cluster's has: Spark, a Java, a Python with packages; nothing of this directory."""
    ours = {"PYTHONPATH", "SPARK_HOME", "JAVA_HOME"}
    inherited = {name: value for name, value in os.environ.items() if name not in ours}
    return {
        **inherited,
        "JAVA_HOME": str(java_home()),
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
    }


@contextmanager
def _running(log: Path, command: list[str]) -> Iterator[Path]:
    options = ["--host", "127.0.0.1", "--webui-port", "0"]
    spark_class = [str(SPARK / "bin/spark-class"), command[0], *options, *command[1:]]
    with log.open("w") as output:
        process = subprocess.Popen(
            ["sh", "-c", _UNTIL_STDIN_ENDS, "sh", *spark_class],
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=output,
            env=environment(),
            cwd=log.parent,
        )
    try:
        yield log
    finally:
        process.communicate(timeout=120)


def _awaited(log: Path, pattern: str) -> str:
    """Wait until a process has said something, and return the part of it that matters."""
    until = time.monotonic() + _STARTS_S
    while time.monotonic() < until:
        if found := re.search(pattern, log.read_text(encoding="utf-8")):
            return found[1]
        time.sleep(0.1)
    raise AssertionError(f"it does not start; it said: {log.read_text(encoding='utf-8')}")
