"""These files' tests are shared out over the workers; a session of Spark is made for the files beside this directory."""

import pytest


@pytest.fixture(scope="session")
def spark() -> None:
    """Refuse a session, which takes a JVM of its own in each worker."""
    pytest.fail("a test that needs Spark is not in tests/analytics/without_spark")
