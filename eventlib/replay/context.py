"""What all tasks of a replay share, and how states follow from what was emitted."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from eventlib.errors import UndecodableRecord
from eventlib.eventlog import EventLog
from eventlib.model.decider import Decider
from eventlib.model.event import NO_HEADERS, Event, Meta, of_fields
from eventlib.model.kept_error import kept_reason
from eventlib.model.record import Record
from eventlib.replay.comparison import Decision, Describer, OutputQuery, same
from eventlib.replay.partition_buffer import Item
from eventlib.replay.report import Kind, Tally
from eventlib.replay.scanner import LogScanner
from eventlib.replay.spilling_cache import SpillingCache
from eventlib.runtime.keyed_state import KeyedState
from eventlib.values import from_ms


class Taken(NamedTuple):
    """One decision as it was made: in which state, on what, and what was emitted; `event` is None for a deadline."""

    source: str
    decider: Decider[Any]
    key: str
    saga: str
    at_ms: int
    state: Any
    event: Event | None
    deadline: str
    meta: Meta
    emitted: Sequence[Item]


Tap = Callable[[Taken], None]


@dataclass(frozen=True, slots=True)
class ReplayContext:
    """What all tasks of a replay share."""

    log: EventLog
    window: LogScanner
    entries: Mapping[str, SpillingCache[KeyedState]]
    tally: Tally
    asked: OutputQuery
    describer: Describer
    code_version: str
    tap: Tap | None = None
    """Called with each decision that can be read and is asked for."""
    patience_ms: int = 0
    """How much later than it is due a deadline may have passed: a task handles its inputs first."""

    def judge(self, decision: Decision, failure: Exception | None) -> None:
        """Count a decision; record a difference if the current code decides something else, or fails."""
        self.tally.decisions[decision.handler] += 1
        if failure is not None or decision.kind is not None or not same(decision.now, decision.then):
            self.differs(decision, failure)

    def differs(self, decision: Decision, failure: Exception | None = None) -> None:
        """Record a decision in which the current code decides something else, or fails."""
        if failure is not None and decision.kind is None:
            kind: Kind = "unreadable" if isinstance(failure, UndecodableRecord) else "raises"
            decision = replace(decision, kind=kind, why=kept_reason(failure, personal=False))
        self.tally.add(self.describer.difference(decision))


def after(decider: Decider[Any], state: Any, emitted: Sequence[Item]) -> Any:
    """Return a decider's state after the emitted events that the current classes can read."""
    wants_meta = decider.evolve_wants_meta
    for record, event in emitted:
        if isinstance(event, Event):
            before = decider.initial if state is None else state
            state = decider.evolved(before, event, meta_when_emitted(record) if wants_meta else _NO_META)
    return state


def meta_when_emitted(record: Record) -> Meta:
    """Return the Meta that evolve received when an event was emitted: before it had an offset."""
    return of_fields(
        Meta,
        (
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
            NO_HEADERS,
        ),
    )


_NO_META = Meta("")


SAME_CODE = "the code is that which decided then: it is not pure, or a package that it uses has changed"
"""Why a decision differs although the application's code does not."""
