"""The broker that all forked processes of a run share."""

from collections.abc import Iterator
from contextlib import contextmanager
from warnings import catch_warnings, simplefilter

import pytest

from eventlib.devtools.kafka import Cluster
from eventlib.devtools.kafka.owned import owned_directory
from tests.conftest import NODE


def needs_broker(item: pytest.Item) -> bool:
    """Return whether a test needs the broker that tests share."""
    return "broker" in getattr(item, "fixturenames", ())


@contextmanager
def broker_for(session: pytest.Session) -> Iterator[None]:
    """Run a broker, and let the tests of a session find it, as the processes find theirs among which xdist shares tests."""
    with owned_directory() as directory:
        with catch_warnings():
            simplefilter("ignore", ResourceWarning)  # it outlives the object that started it; the directory ends it
            Cluster.create(directory, NODE).start()  # here: a mutant's process has limits, which it would inherit
        session.config.workerinput = {"broker": str(directory)}  # type: ignore[attr-defined]  # xdist's
        yield
