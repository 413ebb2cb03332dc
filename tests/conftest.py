"""What every run of the tests shares: how it is spread over processes, its broker, and what ends whatever hangs or stays."""

import faulthandler
import gc
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from secrets import token_hex

import pytest
from _pytest.terminal import TerminalReporter
from hypothesis import HealthCheck, settings
from pytest_timeout import Settings
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling
from xdist.workermanage import WorkerController

from eventlib.devtools.kafka import Cluster, ClusterConfig, running_cluster
from eventlib.devtools.kafka.layout import alone_in
from eventlib.devtools.kafka.owned import owned_directory
from eventlib.proof.elsewhere import end_libraries
from tests import forked, leftovers
from tests.cheaper import keep_files_in_memory, read_authorities_once
from tests.postgres import Postgres, running_postgres
from tests.signals import hear_ctrl_c

pytest_plugins = ["tests.imported", "tests.minutes"]

# Here and in all that the tests start: hundreds of processes would compile everything anew.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# The same examples in each run, on a machine of any speed.
_TESTS = settings(deadline=None, derandomize=True, database=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("tests", _TESTS)
settings.load_profile("tests")

_TOGETHER = ("tests/analytics/", "tests/console/")
"""Folders whose tests share what is dear to start: a session of Spark, a browser."""
_APART = "tests/analytics/without_spark/"
_STARTS_PROCESSES = (_APART, "tests/integration/")
NODE = ClusterConfig(
    properties={
        "transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",
        "group.min.session.timeout.ms": "1000",
        "broker.session.timeout.ms": "60000",
    }
)
"""Transactions that a killed process leaves open are aborted soon after their timeout, not within ten seconds of it.

A test may ask for a shorter session than the six seconds that a broker allows by default. And the node is not fenced when
a busy machine lets it wait: nobody would take over from it, and what it commits then may stay invisible.
"""

_AGAIN_S = 5
_CLEANING_UP_S = 300
_SLOW_S = 3_600
_directory_of_run = pytest.StashKey[Path]()
_shared_cluster = pytest.StashKey[Cluster]()
_endings = pytest.StashKey[ExitStack]()


class ByFile(LoadScopeScheduling):  # type: ignore[misc]  # its package has no types
    """A file's tests run in one process, where several share them out; and so do all of some folders."""

    def _split_scope(self, nodeid: str) -> str:
        return _scope(nodeid)


def _file(nodeid: str) -> str:
    return nodeid.partition("::")[0]


def _scope(nodeid: str) -> str:
    file = _file(nodeid)
    together = next((folder for folder in _TOGETHER if file.startswith(folder)), file)
    return file if file.startswith(_APART) else together


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> LoadScopeScheduling:
    """Share tests out file by file."""
    return ByFile(config, log)


def pytest_configure(config: pytest.Config) -> None:
    """Prepare this process, which collects tests, runs them, or shares them out."""
    hear_ctrl_c()
    keep_files_in_memory()
    read_authorities_once()
    leftovers.watch_connections()
    config.stash[_endings] = ExitStack()
    if not hasattr(config, "workerinput"):
        leftovers.mark_children()


def pytest_configure_node(node: WorkerController) -> None:
    """Name a directory to each process, where the one that needs a broker first starts it for all."""
    config: pytest.Config = node.config
    if _directory_of_run not in config.stash:
        config.stash[_directory_of_run] = config.stash[_endings].enter_context(owned_directory())
    node.workerinput["broker"] = str(config.stash[_directory_of_run])


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Collect without the garbage collector: all that is made here stays, and it never has to go over it again.

    The tests run with a collector that looks seldom: looking as often as by default takes a twelfth of their time.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()
        gc.set_threshold(*forked.SELDOM)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Give long tests more time, name those that need a broker or a JVM, and let several processes begin with the longest."""
    for item in items:
        if item.get_closest_marker("slow") and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(_SLOW_S))
        if {"broker", "three_brokers", "spark"}.intersection(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.heavy)
    if hasattr(config, "workerinput"):
        _begin_with_the_longest(items)


def _begin_with_the_longest(items: list[pytest.Item]) -> None:
    """Put folders that one process runs first, and files of light tests last: else three processes wait for a fourth.

    What the extended run has of sagas (explorations, chaos) takes minutes a test, and would come last.
    """
    heavy = {_file(item.nodeid) for item in items if item.get_closest_marker("heavy")}
    minutes = {_file(item.nodeid) for item in items if item.get_closest_marker("extended")}

    def rank(item: pytest.Item) -> int:
        file = _file(item.nodeid)
        if _scope(item.nodeid) in _TOGETHER or (file in minutes and file.startswith("tests/saga/")):
            return 0
        return 1 if file in heavy else 2 if file.startswith(_STARTS_PROCESSES) else 3

    items.sort(key=rank)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol() -> Iterator[None]:
    """Let no test log otherwise because of those before it."""
    with leftovers.levels_of_logging_kept():
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
    """Put the connections that a test has left open into its last report."""
    if call.when == "teardown":
        item.user_properties += [("connection", each) for each in leftovers.connections()]
    return (yield)


def pytest_terminal_summary(terminalreporter: TerminalReporter) -> None:
    """Name the tests that have left connections open."""
    for report in (each for reports in terminalreporter.stats.values() for each in reports):
        for name, connection in getattr(report, "user_properties", ()):
            if name == "connection" and report.when == "teardown":
                terminalreporter.line(f"{report.nodeid} has left a connection open: {connection}")


@pytest.hookimpl(wrapper=True)
def pytest_timeout_set_timer(settings: Settings) -> Iterator[None]:
    """Let a test that took too long fail again and again: `with Popen(...)` first waits for the process to end."""
    try:
        return (yield)
    finally:
        signal.setitimer(signal.ITIMER_REAL, settings.timeout, _AGAIN_S)


@pytest.hookimpl(trylast=True)
def pytest_exception_interact(node: pytest.Item) -> None:
    """Watch a failed test clean up, too: the plugins that watch a test stop when it fails."""
    if not node.config.getoption("usepdb"):
        faulthandler.dump_traceback_later(_CLEANING_UP_S, exit=True)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> Iterator[None]:
    """When all has ended, fail the run if any of its processes has not."""
    yield
    faulthandler.dump_traceback_later(_CLEANING_UP_S, exit=True)  # a thread that hangs would keep this process
    session.config.stash[_endings].close()
    end_libraries()
    forked.end_server()
    if hasattr(session.config, "workerinput"):
        faulthandler.cancel_dump_traceback_later()  # it is there until the others have finished, too
    elif left := leftovers.end_leftovers():
        session.config.get_terminal_writer().line(f"\nleft behind by the tests, and killed now: {left}")
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


@pytest.fixture(scope="session")
def broker(pytestconfig: pytest.Config) -> Iterator[Cluster]:
    """One node of Apache Kafka for all tests of a run: what a test makes on it has names that no other test uses."""
    shared = getattr(pytestconfig, "workerinput", {}).get("broker")
    if shared is None:
        with running_cluster(NODE) as cluster:
            yield cluster
        return
    directory = Path(shared)
    with alone_in(directory):
        cluster = Cluster.open(directory) or Cluster.create(directory, NODE)
        cluster.start()  # unless it runs
    pytestconfig.stash[_shared_cluster] = cluster  # it outlives this process's tests: others may still use it
    yield cluster


@pytest.fixture
def kafka_url(broker: Cluster) -> str:
    """The URL of a log of the test's own, on the broker that all tests share."""
    return f"{broker.url}/?prefix={token_hex(4)}."


@pytest.fixture(scope="module")
def three_brokers() -> Iterator[Cluster]:
    """Three nodes for one module's tests, which may kill and pause them, and leave them all running."""
    with running_cluster(ClusterConfig(nodes=3)) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    """A PostgreSQL server for all tests of a process: each makes databases of its own."""
    with running_postgres() as server:
        yield server
