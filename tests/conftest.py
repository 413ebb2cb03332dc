"""The real brokers that tests run on: started when a test first asks, ended with the run, however that ends."""

from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling

from eventlib.broker import Cluster, ClusterConfig, running_cluster

# The same examples in each run, on a machine of any speed.
_TESTS = settings(deadline=None, derandomize=True, database=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("tests", _TESTS)
settings.load_profile("tests")


class ByFile(LoadScopeScheduling):  # type: ignore[misc]  # its package has no types
    """A file's tests run in one process, where several share them out; and all of Spark's, which take one session."""

    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.partition("::")[0]
        return _SPARK if file.startswith(_SPARK) else file


_SPARK = "tests/analytics/"


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> LoadScopeScheduling:
    """Share tests out file by file."""
    return ByFile(config, log)


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
