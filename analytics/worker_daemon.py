"""Starts Spark's Python workers on this machine: `spark.python.daemon.module`, like Spark's own, with two differences.

Each worker is a fork of this process, and ends after a minute without work. The jobs' imports are loaded here, before
forking: 2 s of CPU for every worker otherwise. They are also frozen for the garbage collector, which a worker runs in
full after each of its tasks.

Before each task a worker invalidates all importers' caches, in case files were added. Before Python 3.12, a zip file's
importer then reads its whole directory again, and Spark itself is in such files: 0.12 s of CPU for every task. These
files never change while a session lives, and additions are new files.
"""

from contextlib import suppress
from importlib import import_module
from pathlib import Path
from zipimport import zipimporter

from pyspark import daemon

from eventlib.command_line import nearest
from eventlib.errors import EventlibError
from eventlib.runtime.runtime import collect_garbage_seldom

IMPORTED = (
    *("analytics.audit.auditing", "analytics.history", "analytics.kafka", "analytics.sqlite"),
    "adbc_driver_sqlite.dbapi",  # imported by the first query of a file, and with it pandas
)


def import_application(directory: Path) -> None:
    """Import the application that the nearest pyproject.toml names; a job that needs another one, or one that fails, says so."""
    with suppress(EventlibError, ImportError):
        app = nearest(directory)[1]
        if app is not None:
            import_module(app.partition(":")[0])


def _remember(_: zipimporter) -> None:
    """Keep a zip file's cached directory."""


if __name__ == "__main__":
    zipimporter.invalidate_caches = _remember  # type: ignore[assignment]
    for name in IMPORTED:
        import_module(name)
    import_application(Path.cwd())
    collect_garbage_seldom()
    daemon.manager()  # type: ignore[no-untyped-call]
