"""Work of Spark's workers that needs no query, and the files that they write."""

from collections.abc import Callable, Sequence
from pathlib import Path
from secrets import token_hex
from typing import TypeVar

from pyspark.sql import SparkSession

from eventlib.errors import EventlibError

T = TypeVar("T")


def run_tasks(spark: SparkSession, tasks: Sequence[Callable[[], T]], *, here: bool) -> list[T]:
    """Do tasks in Spark's workers; or one after the other in this process, since a job of Spark's costs 0.2 s of CPU.

    Raises: as the tasks do, if that is an error of the library's; what else they raise, as Spark's.
    """
    if here or not tasks:
        return [task() for task in tasks]
    done = spark.sparkContext.parallelize(tasks, len(tasks)).map(_call).collect()
    for each in done:
        if isinstance(each, EventlibError):
            raise each
    return [each for each in done if not isinstance(each, EventlibError)]


def _call(task: Callable[[], T]) -> T | EventlibError:
    try:
        return task()
    except EventlibError as error:
        return error


def unfinished() -> str:
    """Return a name for a task's file that Spark passes over: a task that fails leaves it, and is repeated."""
    return f"_{token_hex(8)}"


def finished(path: Path) -> Path:
    """Rename a file of a task that has not failed, so that it counts; return it."""
    return path.rename(path.with_name(f"{path.name.removeprefix('_')}.parquet"))
