"""What all tasks of a replay share, and how today's code follows what was said."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from eventlib.errors import UndecodableRecord
from eventlib.eventlog import EventLog
from eventlib.log.base import Record
from eventlib.model.decider import Decider
from eventlib.model.event import Event, Meta
from eventlib.replay.comparison import Decision, Describer, OutputQuery, same
from eventlib.replay.partition_buffer import Item
from eventlib.replay.report import Kind, Tally
from eventlib.replay.scanner import LogScanner
from eventlib.replay.spilling_cache import SpillingCache
from eventlib.values import from_ms


@dataclass(frozen=True, slots=True)
class ReplayContext:
    """What all tasks of a replay share."""

    log: EventLog
    window: LogScanner
    entries: Mapping[str, SpillingCache]
    tally: Tally
    asked: OutputQuery
    describer: Describer
    code_version: str
    doubtful: set[tuple[str, str]] = field(default_factory=set)
    """The deciders (`service/decider`) and keys of which an input is damaged: what they decide after it is not compared."""

    def judge(self, decision: Decision, failure: Exception | None) -> None:
        """Count a decision, and take note of it when today's code takes it otherwise, or fails in it."""
        self.tally.decisions[decision.handler] += 1
        if failure is not None or decision.kind is not None or not same(decision.now, decision.then):
            self.differs(decision, failure)

    def differs(self, decision: Decision, failure: Exception | None = None) -> None:
        """Take note of a decision that today's code takes otherwise, or in which it fails."""
        if failure is not None and decision.kind is None:
            kind: Kind = "unreadable" if isinstance(failure, UndecodableRecord) else "raises"
            decision = replace(decision, kind=kind, why=f"{type(failure).__name__}: {failure}")
        self.tally.add(self.describer.difference(decision))


def after(decider: Decider[Any], state: Any, said: Sequence[Item]) -> Any:
    """Return a decider's state after what was said, as far as today's classes can read it."""
    wants_meta = decider.evolve_wants_meta
    for record, event in said:
        if isinstance(event, Event):
            before = decider.initial if state is None else state
            state = decider.evolved(before, event, meta_when_said(record) if wants_meta else _NO_META)
    return state


def meta_when_said(record: Record) -> Meta:
    """Return what an evolve was told of an event when it was said: before it had a place on the log."""
    return Meta(
        record.event_id,
        "",
        0,
        -1,
        from_ms(record.timestamp_ms),
        record.correlation_id or "",
        record.causation_id,
        record.source or "",
        record.subject or "",
        record.sequence,
        record.traceparent,
    )


_NO_META = Meta("")
