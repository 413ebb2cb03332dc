"""Tables that are kept current are those of a full rebuild at the same offsets, wherever the follower dies."""

import random
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from threading import Event

import pytest
from pyspark.sql import SparkSession

from analytics.asking import spans
from analytics.commands.following import line_of, seconds_of
from analytics.rebuilding import Following, How, Increment, follow
from analytics.stores import current, read_manifest
from eventlib.devtools.kafka import Cluster
from eventlib.errors import LogVersionMismatch, WiringError
from eventlib.log.base import TopicPartition
from eventlib.log.sqlite.state import OFFSET_BITS
from services.analytics import TABLES
from tests import forked
from tests.analytics.damages import copied, seal_partitions
from tests.analytics.independent import Story, read_all
from tests.analytics.processes import first_line, running, wait_until
from tests.analytics.sources import ROOT
from tests.analytics.sources import rebuild_shop as rebuild
from tests.analytics.test_rebuild import assert_same, written
from tests.saga.shop_runs import ShopLog, order_file


class GrowingLog:
    """A copy of a log in a file that shows no more than what was recorded by some time."""

    def __init__(self, source: str, directory: Path) -> None:
        self._path = copied(source, directory)
        self.url = f"sqlite:///{self._path}"
        with sqlite3.connect(self._path) as copy:
            self._ends = dict(copy.execute("SELECT number, next_offset FROM partitions").fetchall())

    def show(self, share: float) -> None:
        """Show a share of its records, the oldest ones."""
        with sqlite3.connect(self._path) as db:
            (count,) = db.execute("SELECT count(*) FROM records").fetchone()
            sql = "SELECT recorded_at FROM records ORDER BY recorded_at LIMIT 1 OFFSET ?"
            (at,) = db.execute(sql, (int(count * share) - 1,)).fetchone()
            later = "SELECT min(position) FROM records WHERE position >= ? AND position < ? AND recorded_at > ?"
            for number, end in self._ends.items():
                base = number << OFFSET_BITS
                (first,) = db.execute(later, (base, base + end, at)).fetchone()
                shown = end if first is None else first - base
                db.execute("UPDATE partitions SET next_offset = ? WHERE number = ?", (shown, number))
            seal_partitions(db)


def traded(url: str, seed: int, orders: int = 10) -> None:
    """Let a log grow by some orders that the services handle."""
    command = [sys.executable, "-m", "services", "demo", "--orders", str(orders), "--seed", str(seed), "--log", url]
    forked.run([*command, "--json"], cwd=ROOT, check=True, capture_output=True, timeout=300)


def ends_of(url: str) -> dict[TopicPartition, int]:
    """Return up to where a log's partitions go now."""
    return {place: span.stop for place, span in spans(url).items()}


FOLLOWED = (*TABLES, "state_order", "state_order_history")
"""Tables of every kind: of events, of sagas, the shop's own, and of journals."""


@contextmanager
def kept_current(
    spark: SparkSession, url: str, out: Path, told: list[Increment], every_s: float = 0.2
) -> Iterator["tuple[Future[None], Callable[[], object]]"]:
    """Follow a log; yields what the follower comes to, and tells whether it is up to the log's end."""
    ended = Event()
    with ThreadPoolExecutor(1) as pool:
        following = Following(every_s, told.append, print, ended)
        follower = pool.submit(follow, spark, url, out, following, How(select=FOLLOWED))

        def is_current() -> bool:
            return follower.done() or bool(told and not told[-1].done.manifest.ends.items() - ends_of(url).items())

        try:
            yield follower, is_current
        finally:
            ended.set()


def assert_each_offset_was_read_once(increments: Sequence[Increment], begin: Mapping[TopicPartition, int]) -> None:
    ends = dict(begin)
    for increment in increments:
        for place, span in increment.done.read.items():
            assert span.start == ends.get(place, 0)
            ends[place] = span.stop
    made = increments[-1].done.manifest.ends
    assert {place: ends.get(place, 0) for place in made} == made


def as_of(story: Story, ends: Mapping[TopicPartition, int]) -> Story:
    return [(record, event) for record, event in story if record.offset < ends.get((record.topic, record.partition), 0)]


@pytest.mark.extended
async def test_killed_while_it_rebuilds_it_has_whole_tables_and_goes_on_from_there(
    spark: SparkSession, shop_log: str, tmp_path: Path
) -> None:
    log, out, story = GrowingLog(shop_log, tmp_path), tmp_path / "out", await read_all(shop_log)
    log.show(0.3)
    arguments = ["--log", log.url, "--out", str(out), "--follow", "--every", "200ms", "--json"]
    arguments += ["--select", ",".join(FOLLOWED)]
    with running(tmp_path / "temporary", "rebuild", *arguments) as follower:
        first_line(follower)
        log.show(0.6)
        wait_until((out / "versions/0000000002/saga_steps").exists, follower)
        follower.send_signal(signal.SIGKILL)
        follower.wait()
    version = current(out)
    assert version is not None
    begin = read_manifest(version).ends
    assert_same(out, as_of(story, begin))
    told = list[Increment]()
    with kept_current(spark, log.url, out, told) as (ending, is_current):
        wait_until(is_current)
        log.show(1.0)
        wait_until(is_current)
    assert ending.exception() is None
    assert_same(out, story)
    assert_each_offset_was_read_once(told, {place: end for place, end in begin.items() if end})
    assert [len({each.done.manifest.number for each in told}), told[-1].behind] == [len(told), 0]
    assert all(f"version {each.done.manifest.number}" in line_of(each) for each in told)


def forget_the_last_batch(place: Path) -> None:
    """Leave the checkpoint as a process does that is killed when its tables are written, and before that is noted."""
    commits = [path for path in (place / "stream/commits").iterdir() if path.name.isdigit()]
    last = max(commits, key=lambda path: int(path.name))
    last.unlink()
    last.with_name(f".{last.name}.crc").unlink(missing_ok=True)


@pytest.mark.extended
async def test_a_batch_that_comes_again_from_kafka_changes_nothing(
    spark: SparkSession, broker: Cluster, tmp_path: Path
) -> None:
    url, told = f"{broker.url}/?prefix=followed.", list[Increment]()
    traded(url, seed=1)
    with kept_current(spark, url, tmp_path, told, every_s=4.0) as (ending, is_current):
        wait_until(lambda: told or ending.done())
        traded(url, seed=2)
        wait_until(is_current)
    assert ending.exception() is None
    assert len(told) > 1
    forget_the_last_batch(tmp_path)
    batches = len(list((tmp_path / "stream/commits").iterdir()))
    with kept_current(spark, url, tmp_path, told) as (ending, is_current):
        wait_until(lambda: ending.done() or len(list((tmp_path / "stream/commits").iterdir())) > batches)
    assert ending.exception() is None
    assert_same(tmp_path, await read_all(url))
    assert_each_offset_was_read_once(told, {})


@pytest.mark.slow
def test_what_a_batch_fails_with_is_said_as_it_is(spark: SparkSession, broker: Cluster, tmp_path: Path) -> None:
    url, told = f"{broker.url}/?prefix=failed.", list[Increment]()
    traded(url, seed=1)
    with kept_current(spark, url, tmp_path, told) as (ending, _):
        wait_until(lambda: told or ending.done())
        manifest = tmp_path / "current" / "manifest.json"
        manifest.write_text(manifest.read_text().replace('"format": 2', '"format": 99'))
        traded(url, seed=2)
        assert isinstance(ending.exception(300), LogVersionMismatch)


def test_a_duration_has_a_unit() -> None:
    assert [seconds_of(text) for text in ("500ms", "10s", "1.5m")] == [0.5, 10.0, 90.0]
    for text in ("", "10", "0s", "fast"):
        with pytest.raises(WiringError, match="500ms"):
            seconds_of(text)


def version_in(place: Path) -> str | None:
    version = current(place)
    return None if version is None else version.name


def has_come_to(table: Path, before: str, importing: "subprocess.Popen[str]") -> bool:
    """Tell whether a follower is at a table of its next version, has made that already, or gets no more."""
    return table.exists() or version_in(table.parents[2]) != before or importing.poll() is not None


@pytest.mark.slow
@pytest.mark.parametrize("where", ["file", "broker"])
def test_killed_at_any_step_it_goes_on_where_it_was(
    spark: SparkSession, where: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    url = None if where == "file" else f"{request.getfixturevalue('broker').url}/?prefix=killed."
    shop, out, chosen = ShopLog(tmp_path, url), tmp_path / "out", random.Random(7)
    arguments = ["rebuild", "--log", shop.url, "--out", str(out), "--follow", "--every", "200ms", "--json"]
    shop.run_import(order_file(tmp_path, 50))
    importing = shop.start_import(order_file(tmp_path, 2_000), "--json")
    for kill in range(5):
        with running(tmp_path / f"temporary{kill}", *arguments) as follower:
            first_line(follower)
            before = current(out)
            assert before is not None
            later = out / "versions" / f"{int(before.name) + 1:010}" / chosen.choice(TABLES)
            wait_until(partial(has_come_to, later, before.name, importing), follower)
            follower.send_signal(signal.SIGKILL)
            follower.wait()
        version = current(out)
        assert version is not None
        full = tmp_path / "full" / version.name
        rebuild(spark, shop.url, full, as_of=read_manifest(version).ends)
        assert written(out) == written(full)
    importing.communicate(timeout=600)
    assert importing.returncode == 0
    rebuild(spark, shop.url, out)
    rebuild(spark, shop.url, tmp_path / "end")
    assert written(out) == written(tmp_path / "end")
