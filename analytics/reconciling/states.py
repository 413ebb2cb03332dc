"""Live states compared with the folded log: each task's history folded up to where its store, or changelog, is complete."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from analytics.audit.application import Application
from analytics.audit.rows import batches_of
from analytics.reconciling.difference import FOUND, Difference, compared_of, rows_of
from analytics.reconciling.live import STORE, take_down
from analytics.task_pass import Moment, Replaying, TaskOfPass, TaskPass, Visitor
from eventlib.errors import EventlibError
from eventlib.eventlog import EventLog
from eventlib.json_form import json_of, json_text
from eventlib.model.decider import Decider
from eventlib.model.kept_error import kept_reason
from eventlib.model.record import Record, key_text
from eventlib.replay.comparison import OutputQuery
from eventlib.replay.spilling_cache import SpillingCache
from eventlib.runtime.keyed_state import KeyedState, entry_of
from eventlib.runtime.records import DUE, JournalEntry, changelog_key, due_key
from eventlib.values import from_ms

_NOTHING_IS_JUDGED = OutputQuery(since_ms=1 << 62)
_MOST = 10_000
"""How many differences of one decider in one task are listed; all are counted."""


def state_findings(
    spark: SparkSession, url: str, application: Application, place: Path
) -> tuple[DataFrame, list[Difference]]:
    """Return the differences between live states and the log, as rows of `FOUND`; and stores that cannot be compared.

    `place` is a directory for the copies of the live states.
    """
    live, lost = take_down(spark, url, application, place)
    return TaskPass(application, url, added=live).rows(spark, _comparing, FOUND), lost


def _comparing(opened: EventLog) -> Callable[[TaskOfPass], Visitor]:
    return partial(_Task, opened, "", _NOTHING_IS_JUDGED, 0)


@dataclass
class _Source:
    """A task's data in one store or changelog: its entries by decider and key, and its index of deadlines."""

    where: str
    until: str
    states: dict[tuple[str, str], Record] = field(default_factory=dict)
    due: set[str] = field(default_factory=set)
    best: dict[str, tuple[int, list[Difference]]] | None = None


class _Task(Replaying):
    """One task's history, moment by moment, with the live states among them; where it is not whole, that is a difference."""

    def __init__(self, *replaying: Any) -> None:
        super().__init__(*replaying)
        self._sources = list[_Source]()
        self._done = f"{self._service.journal.name}/{self._partition}:0"
        self._lost: Difference | None = None

    def finish(self) -> Iterable[pa.RecordBatch]:
        """See `Visitor.finish`: the counts and differences."""
        lost = [] if self._lost is None else [(*self._lost, *[None] * 5)]
        return batches_of(lost or [row for source in self._sources for row in _told(source)], FOUND)

    def _told(self, error: Exception) -> None:
        if not isinstance(error, EventlibError):
            raise error
        place = f"{self._service.name}/{self._partition}"
        self._lost = Difference("log", place, "past", "", None, str(error), self._done)

    async def _replay(self, moment: Moment, entries: Sequence[JournalEntry]) -> None:
        # Where a task has made several transactions in one millisecond, a live state is as of one of them.
        sources = _sources_of(moment.added)
        for record, entry in zip(moment.journalled, entries, strict=True):
            self._done = f"{record.topic}/{record.partition}:{record.offset}"
            await self._again.replay(entry)
            for source in sources:
                self._compare(source)
        for source in [] if entries else sources:
            self._compare(source)
        now = moment.at_ms, moment.at_ms
        self._window.unclaimed(self._service.name, now)  # outputs without a transaction are reported by the audit
        self._sources += sources

    def _compare(self, source: _Source) -> None:
        found = {d.name: self._differences(source, d, self._entries[d.name]) for d in self._service.deciders}
        if source.best is None or _number(found) < _number(source.best):
            source.best = found

    def _differences(
        self, source: _Source, decider: Decider[Any], folded: SpillingCache[KeyedState]
    ) -> tuple[int, list[Difference]]:
        """Return how many keys of a decider are equal, and the differences."""
        equal_keys, found, seen = 0, list[Difference](), set[str]()
        for key, entry in folded.all():
            if entry.state is None:
                continue
            seen.add(key)
            differing = self._of_key(source, decider, key, entry)
            equal_keys += not differing
            found += differing
        for (name, key), record in source.states.items():
            if name == decider.name and key not in seen and record.value:
                text = _text(self._entry(decider, record))
                found.append(Difference(source.where, name, key, "", text, None, source.until))
        return equal_keys, found

    def _of_key(self, source: _Source, decider: Decider[Any], key: str, entry: KeyedState) -> list[Difference]:
        record = source.states.get((decider.name, key))
        if record is None or not record.value:
            return [Difference(source.where, decider.name, key, "", None, _text(entry), source.until)]
        live = self._entry(decider, record)
        pairs: Mapping[str, tuple[Any, Any]]
        if isinstance(live, str):
            pairs = {"(bytes)": (live, json_text(entry.state))}
        else:
            logged = {each.name: getattr(entry.state, each.name) for each in fields(entry.state)}
            pairs = {name: (getattr(live.state, name), value) for name, value in logged.items()}
            pairs |= {"changed_by": (live.changed_by, entry.changed_by), **_deadlines(source, decider, key, live)}
        return [
            Difference(source.where, decider.name, key, name, _value(mine), _value(its), source.until)
            for name, (mine, its) in pairs.items()
            if mine != its and json_of(mine) != json_of(its)  # NaN is not equal to itself
        ]

    def _entry(self, decider: Decider[Any], record: Record) -> KeyedState | str:
        try:
            return entry_of(record, decider, self._context.log.codec)
        except EventlibError as error:
            return str(error)
        except Exception as error:  # noqa: BLE001  whatever a damaged value does to its reader, it is a difference
            return kept_reason(error, personal=decider.is_personal)


def _sources_of(live: Sequence[Record]) -> list[_Source]:
    found = dict[tuple[str, str], _Source]()
    for record in live:
        where, until = record.source or "", record.subject or ""
        source = found.setdefault((where, until), _Source(where, until))
        key = key_text(record)
        about = changelog_key(key)
        if about.kind == "state":
            source.states[about.decider, about.key] = record
        elif key.startswith(DUE):
            source.due.add(key)
    return [*found.values()]


def _deadlines(source: _Source, decider: Decider[Any], key: str, live: KeyedState) -> dict[str, tuple[Any, Any]]:
    """Return the deadlines of a key that its state has but its store's index lacks, so that they would never pass."""
    if source.where != STORE:
        return {}
    return {
        f"deadline {name}": (None, from_ms(due_ms))
        for name, due_ms in live.due.items()
        if due_key(due_ms, decider.name, name, key) not in source.due
    }


def _number(found: Mapping[str, tuple[int, list[Difference]]]) -> int:
    return sum(len(differences) for _, differences in found.values())


def _told(source: _Source) -> Iterator[tuple[object, ...]]:
    for name, (equal_keys, differences) in (source.best or {}).items():
        yield from rows_of(compared_of(source.where, name, equal_keys, differences), differences[:_MOST])


def _text(entry: KeyedState | str) -> str:
    return entry if isinstance(entry, str) else json_text(entry.state)


def _value(value: Any) -> str | None:
    if value is None or isinstance(value, str):
        return value
    return str(value) if isinstance(value, int) else json_text(value).strip('"')
