"""The steps of a key's history as JSON."""

from typing import Any

from eventlib.model.decider import FORGET
from eventlib.model.record import key_text
from eventlib.replay.comparison import ABSENT, Change
from eventlib.replay.steps import HistoryStep, RecordedEvent
from eventlib.values import iso, iso_ms, iso_or_none


def step_json(step: HistoryStep[Any]) -> dict[str, object]:
    """Return a step as JSON."""
    deadlines = step.deadlines
    return {
        "at": iso(step.at),
        "kind": step.kind,
        "input": None if step.input is None else _recorded_json(step.input),
        "deadline": step.deadline,
        "reason": step.reason,
        "was_parked": step.was_parked,
        "edited": step.edited or None,
        "said": [_recorded_json(said) for said in step.emitted],
        "changes": [_change_json(change) for change in step.changes],
        "state": step.after,
        "sequence": step.entry_after.sequence,
        "changed_by": step.entry_after.changed_by,
        "deadlines": {name: iso(at) for name, at in deadlines.items() if name != FORGET},
        "forgotten_at": iso_or_none(deadlines.get(FORGET)),
        "code_version": step.code_version,
        "journal_offset": step.offset,
    }


def _recorded_json(recorded: RecordedEvent) -> dict[str, object]:
    record = recorded.record
    line: dict[str, object] = {
        "type": recorded.type,
        "id": recorded.id,
        "key": key_text(record),
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "recorded_at": iso_ms(record.timestamp_ms),
        "source": record.source,
        "correlation_id": record.correlation_id,
        "causation_id": record.causation_id,
        "data": recorded.event,
    }
    return {**line, "error": recorded.error} if recorded.error else line


def _change_json(change: Change) -> dict[str, object]:
    sides = {"before": change.before, "after": change.after}
    return {"path": change.path, **{name: value for name, value in sides.items() if value is not ABSENT}}
