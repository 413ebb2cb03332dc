"""Keep which modules the collection of tests has imported: each process of a run imports them, whichever tests it runs."""

import sys

import pytest

COLLECTED = pytest.StashKey[frozenset[str]]()


def pytest_collection_finish(session: pytest.Session) -> None:
    session.config.stash[COLLECTED] = frozenset(sys.modules)
