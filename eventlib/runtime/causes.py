"""Causes: what makes a decider speak, and what that leaves of its key. The same live, in a replay and in a history."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from eventlib.decider import Decider
from eventlib.event import Meta
from eventlib.identity import deadline_id
from eventlib.log.port import Record
from eventlib.runtime.entry import Entry, due_times
from eventlib.runtime.past import Headers, past_of
from eventlib.times import from_ms


class Cause(NamedTuple):
    """The input that makes a decider say something.

    `id` is what the ids of the events said derive from; `caused_by` is the event on the log that they name as their
    cause. They differ for a deadline, which is no event: its cause is the one that last changed the key; and for a
    foreign record, whose id others may give twice. `past` is the mark of what follows from a service's past.
    """

    id: str
    caused_by: str
    correlation_id: str
    traceparent: str | None
    past: Headers = ()


def cause_of_input(record: Record, running: Entry | None, *, foreign: bool) -> Cause:
    """Return a record as a cause; a request about a `running` saga belongs to that saga, and its trace, not to its own."""
    correlation_id, traceparent = record.correlation_id or record.event_id, record.traceparent
    if running is not None and running.correlation_id is not None:
        correlation_id, traceparent = running.correlation_id, running.traceparent or traceparent
    cause_id = f"{record.topic}/{record.partition}/{record.offset}" if foreign else record.event_id
    past = past_of(record.headers) if record.headers else ()
    return Cause(cause_id, record.event_id, correlation_id, traceparent, past)


def cause_of_deadline(name: tuple[str, str], deadline: str, due_ms: int, entry: Entry, past: Headers = ()) -> Cause:
    """Return the passing of a deadline as a cause; `name` is the decider's and the key."""
    cause_id = deadline_id(*name, deadline, due_ms)
    return Cause(cause_id, entry.changed_by or cause_id, entry.correlation_id or cause_id, entry.traceparent, past)


def meta_of_deadline(cause: Cause, at_ms: int, source: str, key: str) -> Meta:
    """Return what the handler of a deadline that passes is told of it."""
    return Meta(
        id=cause.id,
        recorded_at=from_ms(at_ms),
        correlation_id=cause.correlation_id,
        causation_id=cause.caused_by,
        source=source,
        subject=key,
    )


def entry_after(entry: Entry, decider: Decider[Any], cause: Cause, state: Any, said: Sequence[Record]) -> Entry:
    """Return a key's entry after a cause: with a new state, and with all that was said about it."""
    last = said[-1] if said else None
    return Entry(
        state,
        entry.sequence + len(said),
        cause.caused_by if last is None else last.id,
        cause.correlation_id,
        cause.traceparent if last is None else last.traceparent,
        entry.memory,
        due_times(decider, state, entry.memory),
    )
