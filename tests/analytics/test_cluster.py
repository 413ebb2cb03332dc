"""The same jobs on a cluster: a master and two workers, each a process of its own, and jobs that spark-submit brings."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.analytics.damages import DAMAGES, copied, damage_all
from tests.analytics.independent import read_all
from tests.analytics.sources import archived
from tests.analytics.spark_cluster import SparkCluster, spark_cluster
from tests.analytics.test_rebuild import assert_same

ALTERED = next(damage for damage in DAMAGES if damage.name == "a decision altered")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkCluster]:
    with spark_cluster(tmp_path_factory.mktemp("cluster")) as cluster:
        yield cluster


async def rebuilt_on(cluster: SparkCluster, url: str, read_as: str) -> None:
    """Rebuild on the cluster, from a log that it reads as told, and see whether the tables are those of the raw log."""
    out = read_as.partition(":")[0]
    done = cluster.submit("rebuild", "--log", read_as, "--out", out, "--app", "brought_along:shop", "--json")
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
    await rebuilt_on(cluster, archived(shop_log, cluster.directory / "kept"), "archive:kept")


@pytest.mark.slow
def test_the_audit_finds_nothing_on_a_broker_where_nothing_is_wrong(cluster: SparkCluster, broker_log: str) -> None:
    done = cluster.submit("audit", "--log", broker_log, "--app", "brought_along:shop", "--json")
    assert (done.returncode, json.loads(done.stdout)["findings"]) == (0, []), done.stderr


@pytest.mark.slow
async def test_the_audit_finds_a_damage_in_a_file_by_code_that_only_the_job_has(
    cluster: SparkCluster, shop_log: str
) -> None:
    path: Path = copied(shop_log, cluster.directory)
    orders = await damage_all(path, [ALTERED])
    done = cluster.submit("audit", "--log", f"sqlite:///{path.name}", "--app", "brought_along:shop", "--json")
    assert done.returncode == 1, done.stdout + done.stderr
    found = {(finding["order"], finding["rule"]) for finding in json.loads(done.stdout)["findings"]}
    assert found == {(orders[ALTERED.name], rule) for rule in ALTERED.rules}
