"""Tables are made at once: by jobs that wait for each other, fail alone, and end with what has begun them."""

import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from threading import Barrier

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from analytics.rebuilding import building
from analytics.rebuilding.building import ConcurrentJobs

_LONG_S = 300


@pytest.fixture(params=["pinned", "not pinned"])
def _threads(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param != "pinned":  # PYSPARK_PIN_THREAD=false: nothing is wrapped then
        monkeypatch.setattr(building, "inheritable_thread_target", lambda given: given)


def test_jobs_run_at_once_with_the_properties_of_who_begins_them(spark: SparkSession) -> None:
    both, context, pools = Barrier(2, timeout=_LONG_S), spark.sparkContext, list[str | None]()

    def work() -> None:
        both.wait()
        pools.append(context.getLocalProperty("spark.scheduler.pool"))

    context.setLocalProperty("spark.scheduler.pool", "mine")
    try:
        with ConcurrentJobs(spark) as jobs:
            jobs.start("one", work)
            jobs.start("another", work)
            ended = {*jobs.ended()}
            while len(ended) < 2:
                ended.update(jobs.ended())
    finally:
        context.setLocalProperty("spark.scheduler.pool", None)  # type: ignore[arg-type]  # which unsets it
    assert (pools, ended) == (["mine", "mine"], {"one", "another"})


@pytest.mark.usefixtures("_threads")
def test_what_a_job_fails_with_is_raised_once_the_others_have_ended(spark: SparkSession) -> None:
    both, ended = Barrier(2, timeout=_LONG_S), list[str]()

    def failing() -> None:
        both.wait()
        raise ValueError("it has failed")

    def other() -> None:
        both.wait()
        time.sleep(0.2)
        ended.append("other")

    def both_at_once() -> None:
        with ConcurrentJobs(spark) as jobs:
            jobs.start("failing", failing)
            jobs.start("other", other)
            jobs.ended()

    with pytest.raises(ValueError, match="it has failed"):
        both_at_once()
    assert ended == ["other"]


@pytest.mark.usefixtures("_threads")
def test_an_interrupt_ends_jobs_that_run(spark: SparkSession, tmp_path: Path) -> None:
    def slow(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        (tmp_path / "began").touch()
        time.sleep(_LONG_S)
        yield from batches

    def work() -> None:
        spark.range(1).mapInArrow(slow, "id long").collect()

    def interrupted() -> None:
        with ConcurrentJobs(spark) as jobs:
            jobs.start("slow", work)
            while not (tmp_path / "began").exists():
                time.sleep(0.01)
            raise KeyboardInterrupt

    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert time.monotonic() - began < _LONG_S
