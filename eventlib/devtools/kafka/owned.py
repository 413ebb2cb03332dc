"""A cluster that ends with its context, and with the process that has it, however that ends."""

import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from eventlib.devtools.kafka.cluster import Cluster
from eventlib.devtools.kafka.config import ClusterConfig

_WATCHER_ENDS_S = 300
"""Tens of thousands of files are to be deleted where many tests have shared a broker, on a machine that may be busy."""


@contextmanager
def running_cluster(
    config: ClusterConfig | None = None, prepare: Callable[[Cluster], None] = lambda _: None
) -> Iterator[Cluster]:
    """Run a cluster in a temporary directory until the context is left; `prepare` may change its files before it starts.

    Guarantee: neither a process nor a file of it stays, also when this process is killed.
    Raises: BrokerFailed.
    """
    with owned_directory() as directory:
        cluster = Cluster.create(directory, config)
        try:
            prepare(cluster)
            cluster.start()
            yield cluster
        finally:
            cluster.destroy()


@contextmanager
def owned_directory() -> Iterator[Path]:
    """Yield an empty temporary directory in which any process may make a cluster; leaving the context destroys it.

    Guarantee: neither a process nor a file of the cluster stays, also when this process is killed.
    """
    directory = Path(tempfile.mkdtemp(prefix="eventlib-kafka-"))
    # Its standard input ends when this process does; it then destroys the cluster that it finds.
    watcher = subprocess.Popen(  # noqa: S603  this interpreter, with a module of our own
        [sys.executable, "-m", "eventlib.devtools.kafka.watch", str(directory)],
        stdin=subprocess.PIPE,
        start_new_session=True,
    )
    try:
        yield directory
    finally:
        watcher.communicate(timeout=_WATCHER_ENDS_S)
