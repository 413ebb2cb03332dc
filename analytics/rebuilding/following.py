"""Keeps the tables current: increment by increment, as a Spark stream where the log is on Kafka."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Event, Lock
from time import monotonic
from typing import NamedTuple

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from analytics.asking import ask, spans_of
from analytics.audit.application import Application
from analytics.kafka import ends_in_checkpoint, stream
from analytics.rebuilding.catalogue import catalogue_of
from analytics.rebuilding.rebuild import NEW, How, Rebuilt, rebuild, selection
from analytics.scratch import scratch
from analytics.stores import Place, current, read_manifest
from eventlib.errors import LogUnavailable, RetryableError
from eventlib.log.base import TopicPartition

PATIENCE_S = 120.0
"""How long a failure that may pass is retried: about as long as brokers take to come back."""

_CHECKPOINT = "stream"
_LOOKS_S = 1

_PASSING = (RetryableError, PySparkException, Py4JError)
"""Failures that may pass: the log's own, and those of Spark's processes."""

_RETRIES_S = 1.0


class Increment(NamedTuple):
    """The result of one increment, and the tables' lag after it, in offsets."""

    done: Rebuilt
    behind: int


@dataclass(frozen=True)
class Following:
    """How tables are kept current: checking for new records every so many seconds, until `ended` is set.

    `told` is called with each increment, `warned` with a sentence for each retry.
    """

    every_s: float
    told: Callable[[Increment], None]
    warned: Callable[[str], None]
    ended: Event


def follow(
    spark: SparkSession,
    url: str,
    place: Place,
    following: Following,
    how: How = NEW,
    application: Application | None = None,
) -> None:
    """Bring the tables in `place` up to a log's end, and keep them there.

    From Kafka it is a structured stream with its checkpoint beside the tables; a file or an archive is polled, and the
    tables' own offsets are the checkpoint. Ends after the current step of an increment, whose results so far are deleted.
    Guarantee: at any moment, wherever this is killed, the tables are those of a full rebuild at the offsets in their
    manifest, and no offset is read into them twice: tables and offsets change atomically, so a batch that the checkpoint
    repeats changes nothing.
    Raises: as `rebuild` does; retryable errors only at the start, or when they last.
    """
    _Follower(spark, url, place, following, how, application or Application()).run()


class _Ended(Exception):
    """The follower was stopped during a rebuild."""


class _Follower:
    def __init__(
        self, spark: SparkSession, url: str, place: Place, following: Following, how: How, application: Application
    ) -> None:
        self._spark, self._url, self._place, self._how = spark, url, place, how
        self._application = application
        self._topics = catalogue_of(application, how.select or selection(current(place), how)).sources
        self._following, self._ended = following, following.ended
        self._well_at = monotonic()
        self._busy = Lock()
        self._failure: BaseException | None = None

    def run(self) -> None:
        try:
            self._following.told(self._measured(self._rebuild(None, self._how)))
            self._how = replace(self._how, full=False)
            while not self._ended.is_set():
                self._go_on()
        except Exception:  # a signal may have reached Spark's processes, too
            if not self._ended.is_set():
                raise

    def _go_on(self) -> None:
        """Keep the tables current until stopped, or until a failure that may pass."""
        try:
            self._stream() if self._url.startswith("kafka:") else self._look_again_and_again()
        except _PASSING as error:
            if monotonic() - self._well_at > PATIENCE_S:
                raise
            self._following.warned(f"{_first_line(str(error))}; trying again")
            self._ended.wait(max(self._following.every_s, _RETRIES_S))

    def _look_again_and_again(self) -> None:
        while not self._ended.wait(self._following.every_s):
            self._advance(None)

    def _stream(self) -> None:
        records = stream(self._spark, self._url, self._topics)
        writer = records.writeStream.option("checkpointLocation", str(self._checkpoint)).foreachBatch(self._batch)
        query = writer.trigger(processingTime=f"{self._following.every_s} seconds").start()
        try:
            while not (self._ended.is_set() or query.awaitTermination(_LOOKS_S)):
                pass
        except StreamingQueryException as error:
            raise self._failure or LogUnavailable(f"the stream from {self._url} has failed: {_cause(error)}") from error
        finally:
            with self._busy:
                query.stop()

    def _batch(self, _records: DataFrame, number: int) -> None:
        """Bring the tables up to a batch's ends; the rebuild reads its records, from where the tables end."""
        with self._busy:
            self._failure = None
            try:
                self._advance(ends_in_checkpoint(self._checkpoint, number, self._url))
            except BaseException as error:
                self._failure = error
                raise

    @property
    def _checkpoint(self) -> Path:
        if isinstance(self._place, Path):
            return self._place.absolute() / _CHECKPOINT
        return scratch() / _CHECKPOINT  # it may be lost: the tables know how far they are

    def _advance(self, upto: Mapping[TopicPartition, int] | None) -> None:
        done = self._rebuild(None if upto is None else self._not_before(upto), self._how)
        if done.read:
            self._following.told(self._measured(done))
        self._well_at = monotonic()

    def _not_before(self, upto: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, int]:
        """Return where a batch ends, or where the tables do: a repeated batch may be behind them."""
        version = current(self._place)
        ends = {} if version is None else read_manifest(version).ends
        return {place: max(ends.get(place, 0), upto.get(place, 0)) for place in {**ends, **upto}}

    def _rebuild(self, upto: Mapping[TopicPartition, int] | None, how: How) -> Rebuilt:
        return rebuild(
            self._spark,
            self._url,
            self._place,
            as_of=upto,
            how=how,
            application=self._application,
            progress=self._unless_ended,
        )

    def _unless_ended(self, *_: object) -> None:
        if self._ended.is_set():
            raise _Ended

    def _measured(self, done: Rebuilt) -> Increment:
        there = ask(self._url, lambda log: spans_of(log, self._topics))
        ends = done.manifest.ends
        return Increment(done, sum(max(0, span.stop - ends.get(place, 0)) for place, span in there.items()))


def _cause(error: StreamingQueryException) -> str:
    """Return what has ended a stream."""
    return _first_line(re.sub(r"^.*terminated with exception: ", "", str(error)))


def _first_line(text: str) -> str:
    return text.partition("\n")[0] or "Spark gives no reason"
