"""Starts Spark's Python workers on this machine: `spark.python.daemon.module`, as Spark's own, but for one thing.

Before each of its tasks a worker has all importers forget what they know, in case files were added. Before Python 3.12 one of
a zip file reads its whole directory again then, and Spark brings itself along in such files: 0.12 s of CPU for
every task, whatever it does. Nobody writes to them while a session lives, and what is added is another file.
"""

from zipimport import zipimporter

from pyspark import daemon


def _remember(_: zipimporter) -> None:
    """Go on with what is known of a zip file."""


if __name__ == "__main__":
    zipimporter.invalidate_caches = _remember  # type: ignore[assignment]
    daemon.manager()  # type: ignore[no-untyped-call]
