"""Jobs of Spark's at once: planning one, and committing what another has written, leave cores idle that a third can use."""

from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from secrets import token_hex
from threading import Thread
from types import TracebackType
from typing import Self

from pyspark.sql import SparkSession
from pyspark.util import inheritable_thread_target

_AT_ONCE = 4


class ConcurrentJobs:
    """Runs named work in threads, with the local properties of the thread that begins it.

    Without PySpark's pinned threads there are no such properties: whatever thread of the JVM is free runs a job.
    Guarantee: when its context ends, no thread runs any more; jobs are cancelled if an interrupt ends it, all of the session's
    where threads are not pinned.
    """

    def __init__(self, spark: SparkSession) -> None:
        self._spark, self._tag = spark, f"rebuild-{token_hex(4)}"
        self._is_pinned = inheritable_thread_target(spark) is not spark  # type: ignore[comparison-overlap]  # it is then
        self._pool = ThreadPoolExecutor(_AT_ONCE)
        self._running = dict[Future[None], str]()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None, /
    ) -> None:
        """Wait for what is running, and begin nothing more."""
        if kind is not None and not issubclass(kind, Exception):
            # In a thread: this one's connection to the JVM may have been interrupted in a call.
            Thread(target=self._cancel, daemon=True).start()
        self._pool.shutdown(cancel_futures=True)

    def start(self, name: str, work: Callable[[], None]) -> None:
        """Run work under a name."""
        run = inheritable_thread_target(self._spark)(self._tagged) if self._is_pinned else _run
        self._running[self._pool.submit(run, work)] = name

    def _cancel(self) -> None:
        context = self._spark.sparkContext
        if self._is_pinned:
            context.cancelJobsWithTag(self._tag)
        else:
            context.cancelAllJobs()

    def _tagged(self, work: Callable[[], None]) -> None:
        self._spark.sparkContext.addJobTag(self._tag)
        work()

    def ended(self) -> list[str]:
        """Wait until work has ended, and return the names of all that has. Raises: as the work does."""
        done, _ = wait(self._running, return_when=FIRST_COMPLETED)
        names = [self._running.pop(each) for each in done]
        for each in done:
            each.result()
        return names


def _run(work: Callable[[], None]) -> None:
    work()
