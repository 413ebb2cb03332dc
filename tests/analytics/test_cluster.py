"""The same jobs on a cluster: a master and two workers, each a process of its own, and jobs that spark-submit brings."""

import json
from collections.abc import Iterator

import pytest

from tests.analytics.independent import read_all
from tests.analytics.spark_cluster import SparkCluster, spark_cluster
from tests.analytics.test_rebuild import assert_same


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkCluster]:
    with spark_cluster(tmp_path_factory.mktemp("cluster")) as cluster:
        yield cluster


@pytest.mark.slow
async def test_tables_are_the_same_from_a_broker(cluster: SparkCluster, broker_log: str) -> None:
    done = cluster.submit("rebuild", "--log", broker_log, "--out", "tables", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["full"]
    assert_same(cluster.directory / "tables", await read_all(broker_log))
