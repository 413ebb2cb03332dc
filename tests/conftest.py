"""The real brokers that tests run on: started when a test first asks, ended with the run, however that ends."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from eventlib.broker import Cluster, ClusterConfig, running_cluster

SPARK = Path(__file__).with_name("analytics")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let a file's tests run in one process, where several share them out; and all of Spark's, which take one session."""
    for item in items:
        group = SPARK if item.path.is_relative_to(SPARK) else item.path
        item.add_marker(pytest.mark.xdist_group(str(group)))


@pytest.fixture(scope="session")
def broker() -> Iterator[Cluster]:
    """One node of Apache Kafka for all tests of a run: what a test makes on it has names that no other test uses."""
    with running_cluster() as cluster:
        yield cluster


@pytest.fixture(scope="module")
def three_brokers() -> Iterator[Cluster]:
    """Three nodes for one module's tests, which may kill and pause them, and leave them all running."""
    with running_cluster(ClusterConfig(nodes=3)) as cluster:
        yield cluster
