"""The same jobs on a cluster: a master and two workers, each a process of its own, and jobs that spark-submit brings."""

import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from zipfile import ZipFile

import pytest

from analytics.connectors import connectors
from analytics.java_home import java_home
from eventlib.devtools.kafka import ClusterConfig, running_cluster
from eventlib.devtools.kafka.java import find_java
from eventlib.devtools.kafka.security import Sasl, Security
from eventlib.ground.object_store import ObjectStore
from services.analytics import TABLES
from tests.analytics.damages import DAMAGES, copied, damage_all
from tests.analytics.independent import read_all
from tests.analytics.sources import ROOT
from tests.analytics.test_object_store import as_others_read
from tests.analytics.test_rebuild import assert_same

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


SHOP = ("--app", "brought_along:shop", "--json")
ALTERED = next(damage for damage in DAMAGES if damage.name == "a decision altered")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkCluster]:
    with spark_cluster(tmp_path_factory.mktemp("cluster")) as cluster:
        yield cluster


async def rebuilt_on(cluster: SparkCluster, url: str, read_as: str) -> None:
    """Rebuild on the cluster, from a log that it reads as told, and see whether the tables are those of the raw log."""
    out = read_as.partition(":")[0]
    done = cluster.submit("rebuild", "--log", read_as, "--out", out, *SHOP, "--select", ",".join(TABLES))
    assert done.returncode == 0, done.stdout + done.stderr
    assert json.loads(done.stdout)["full"]
    assert_same(cluster.directory / out, await read_all(url))


@pytest.mark.slow
async def test_tables_are_the_same_from_a_broker(cluster: SparkCluster, broker_log: str) -> None:
    await rebuilt_on(cluster, broker_log, broker_log)


@pytest.mark.slow
async def test_tables_are_the_same_from_an_archive_named_from_where_the_job_was_submitted(
    cluster: SparkCluster, shop_log: str
) -> None:
    done = cluster.submit("archive", "--log", shop_log, "--to", "kept", "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    await rebuilt_on(cluster, f"archive:{cluster.directory}/kept", "archive:kept")


@pytest.mark.slow
def test_the_audit_finds_nothing_on_a_broker_where_nothing_is_wrong(cluster: SparkCluster, broker_log: str) -> None:
    done = cluster.submit("audit", "--log", broker_log, *SHOP)
    assert (done.returncode, json.loads(done.stdout)["findings"]) == (0, []), done.stderr


@pytest.mark.slow
def test_the_audits_workers_have_the_drivers_names_and_certificates(
    cluster: SparkCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    with running_cluster(ClusterConfig(security=Security(tls=True, sasl=Sasl.SCRAM))) as brokers:
        for name, value in brokers.environment().items():  # the cluster has been started without
            monkeypatch.setenv(name, value)
        command = [sys.executable, "-m", "services", "demo", "--orders", "20", "--log", brokers.url, "--json"]
        subprocess.run(command, cwd=ROOT, check=True, capture_output=True, timeout=600)
        done = cluster.submit("audit", "--log", brokers.url, *SHOP)
    assert (done.returncode, json.loads(done.stdout)["findings"]) == (0, []), done.stderr


@pytest.mark.slow
async def test_the_audit_finds_a_damage_in_a_file_by_code_that_only_the_job_has(
    cluster: SparkCluster, shop_log: str
) -> None:
    path: Path = copied(shop_log, cluster.directory)
    orders = await damage_all(path, [ALTERED])
    done = cluster.submit("audit", "--log", f"sqlite:///{path.name}", *SHOP)
    assert done.returncode == 1, done.stdout + done.stderr
    found = {(finding["order"], finding["rule"]) for finding in json.loads(done.stdout)["findings"]}
    assert found == {(orders[ALTERED.name], rule) for rule in ALTERED.rules}


@pytest.mark.slow
def test_a_report_and_a_reconciliation_run_there(cluster: SparkCluster, shop_log: str) -> None:
    """Stores are looked into where the job was submitted; what the log says of them is folded on the workers."""
    place = cluster.directory / "stores"
    shutil.copytree(Path(shop_log.removeprefix("sqlite:///")).parent, place)
    done = cluster.submit("reconcile", "--log", f"sqlite:///{place}/shop.db", *SHOP)
    assert (done.returncode, json.loads(done.stdout)["differences"]) == (0, []), done.stdout + done.stderr
    done = cluster.submit("report", "--log", f"sqlite:///{place}/shop.db", "--out", "page.html", "--no-audit", *SHOP)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "</html>" in (cluster.directory / "page.html").read_text()


@pytest.mark.slow
def test_a_log_is_decided_again_and_its_events_are_queried_there(cluster: SparkCluster, shop_log: str) -> None:
    done = cluster.submit("whatif", "--log", shop_log, "--out", "again", *SHOP)
    assert done.returncode == 0, done.stdout + done.stderr
    result = json.loads(done.stdout)
    assert (result["otherwise"], result["differing"], result["failed"]) == (0, 0, 0)
    count = "SELECT count(DISTINCT order_id) AS sagas FROM OrderPlaced"
    done = cluster.submit("sql", count, "--log", shop_log, *SHOP)
    assert done.returncode == 0, done.stdout + done.stderr
    assert json.loads(done.stdout)["sagas"] == result["sagas"] > 0


@pytest.mark.slow
def test_tables_go_to_a_store_whose_credentials_only_the_driver_has(
    cluster: SparkCluster, shop_log: str, moto: str, bucket: ObjectStore
) -> None:
    """It follows the log, as Iceberg, from a directory that no worker has to see; its end is told by a signal."""
    out = ["--out", str(bucket), "--format", "iceberg", "--select", "orders", "--follow", "--every", "200ms"]
    command = cluster.command("rebuild", "--log", shop_log, *out, *SHOP, formats=["iceberg", "s3a"])
    with subprocess.Popen(
        command, cwd=cluster.directory, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as follower:
        assert follower.stdout is not None
        told = json.loads(follower.stdout.readline())
        follower.terminate()
    assert (told["full"], told["behind"]) == (True, 0)
    read = {name: table.num_rows for name, table in as_others_read(bucket, moto)}
    assert read == told["rows"]
    assert "AKIATEST" not in " ".join(command)
