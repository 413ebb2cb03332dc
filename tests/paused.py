"""A broker that keeps silent for a while."""

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager

from eventlib.devtools.kafka import Cluster


@contextmanager
def paused(broker: Cluster) -> Iterator[None]:
    """Stop the one node of a broker that tests share; one test at a time, since each would wake it for the other."""
    with (broker.directory / "paused").open("w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        broker.pause(1)
        try:
            yield
        finally:
            broker.resume(1)
