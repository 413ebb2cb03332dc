"""The same jobs on a cluster: a master and two workers, each a process of its own, and jobs that spark-submit brings."""

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from eventlib.devtools.kafka import ClusterConfig, running_cluster
from eventlib.devtools.kafka.security import Sasl, Security
from eventlib.ground.object_store import ObjectStore
from services.analytics import TABLES
from tests.analytics.damages import DAMAGES, copied, damage_all
from tests.analytics.independent import read_all
from tests.analytics.sources import ROOT
from tests.analytics.spark_cluster import SparkCluster, environment, spark_cluster
from tests.analytics.test_object_store import as_others_read
from tests.analytics.test_rebuild import assert_same

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
