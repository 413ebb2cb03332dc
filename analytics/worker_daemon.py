"""Starts Spark's Python workers on this machine: `spark.python.daemon.module`, as Spark's own, but for two things.

Each worker is a fork of this process, and ends when it had nothing to do for a minute. What the jobs' functions import is
imported here, before: 2 s of CPU for every worker otherwise. And it is hidden from the collector, which a worker asks to
look at all that it has after each of its tasks.

Before each of its tasks a worker has all importers forget what they know, in case files were added. Before Python 3.12 one of
a zip file reads its whole directory again then, and Spark brings itself along in such files: 0.12 s of CPU for
every task, whatever it does. Nobody writes to them while a session lives, and what is added is another file.
"""

from importlib import import_module
from zipimport import zipimporter

from pyspark import daemon

from eventlib.runtime import collect_garbage_seldom

IMPORTED = ("analytics.audit.auditing", "analytics.kafka", "analytics.sqlite", "services")


def _remember(_: zipimporter) -> None:
    """Go on with what is known of a zip file."""


if __name__ == "__main__":
    zipimporter.invalidate_caches = _remember  # type: ignore[assignment]
    for name in IMPORTED:
        import_module(name)
    collect_garbage_seldom()
    daemon.manager()  # type: ignore[no-untyped-call]
