"""The real brokers that tests run on: started when a test first asks, ended with the run, however that ends."""

from collections.abc import Iterator

import pytest

from eventlib.broker import Cluster, ClusterConfig, running_cluster


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
