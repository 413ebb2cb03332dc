"""A saga at one of its moments: the state of each decider, and what the step at that moment changed."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from eventlib.console.reading import as_seen
from eventlib.json_form import json_of
from eventlib.model.decider import FORGET
from eventlib.model.record import Record
from eventlib.model.saga import Saga, SagaEvent
from eventlib.replay.comparison import ABSENT, Change, changes
from eventlib.replay.key_history import KeyHistory
from eventlib.replay.point_in_time import ids_of, waits
from eventlib.replay.steps import HistoryStep
from eventlib.values import from_ms, to_ms


@dataclass(frozen=True, slots=True)
class FieldLine:
    """A field of a state at a moment; where the moment's steps changed it, also as it was `before`."""

    name: str
    value: Any
    before: Any = None
    is_changed: bool = False


@dataclass(frozen=True, slots=True)
class DeciderMoment:
    """What a decider knew at a moment: its state's fields (none before its first input, or once forgotten), and deadlines."""

    decider: str
    service: str
    fields: Sequence[FieldLine]
    is_known: bool
    is_forgotten: bool
    deadlines: Sequence[tuple[str, datetime]]
    waits: str
    doubt: str
    changed_at: datetime | None
    code_version: str


@dataclass(frozen=True, slots=True)
class Moment:
    """A saga after one of its events: when that was, and what each decider knew then."""

    number: int
    event: SagaEvent
    at: datetime
    deciders: Sequence[DeciderMoment]


@dataclass(frozen=True, slots=True)
class StepLine:
    """What a decider did with an event: what it emitted, and what changed in its state."""

    decider: str
    service: str
    kind: str
    reason: str
    at: datetime
    emitted: Sequence[tuple[str, str]]
    changes: Sequence[Change]
    code_version: str
    edited: str


def moment_of(saga: Saga, histories: Sequence[KeyHistory], number: int, *, personal: bool) -> Moment:
    """Return a saga as it was after its event of a number, from 1: all that was committed in that millisecond is in it.

    After the last one it is as it is now: what handled that event is in it, too.
    """
    event = saga.events[number - 1]
    at_ms = event.record.timestamp_ms
    until_ms = at_ms if number < len(saga.events) else None
    found = [_decider_moment(history, at_ms, until_ms, personal=personal) for history in histories]
    return Moment(number, event, from_ms(at_ms), found)


def _decider_moment(history: KeyHistory, at_ms: int, until_ms: int | None, *, personal: bool) -> DeciderMoment:
    until = [step for step in history.steps if until_ms is None or to_ms(step.at) <= until_ms]
    now = [step for step in until if to_ms(step.at) >= at_ms]
    last = until[-1] if until else None
    state = None if last is None else last.after
    deadlines = [] if last is None else [(name, at) for name, at in last.deadlines.items() if name != FORGET]
    return DeciderMoment(
        history.decider.name,
        history.service.name,
        _fields(state, now[0].before if now else state, is_moved=bool(now), personal=personal),
        last is not None,
        last is not None and state is None,
        sorted(deadlines, key=lambda each: each[1]),
        waits(until),
        history.doubt,
        None if last is None else last.at,
        "" if last is None else last.code_version,
    )


def _fields(state: Any, before: Any, *, is_moved: bool, personal: bool) -> Sequence[FieldLine]:
    if state is None:
        return []
    shown = _values(as_seen(state, personal=personal))
    was = _values(as_seen(before, personal=personal)) if before is not None else _values(type(state)())
    return [FieldLine(name, value, was.get(name), is_moved and was.get(name) != value) for name, value in shown.items()]


def _values(state: Any) -> dict[str, Any]:
    found = json_of(state)
    return found if isinstance(found, dict) else {"value": found}


def steps_about(histories: Sequence[KeyHistory], record: Record, *, personal: bool) -> Sequence[StepLine]:
    """Return what each decider did with an event, and the step in which one emitted it."""
    found = list[StepLine]()
    for history in histories:
        found += [
            _step_line(history, step, personal=personal) for step in history.steps if record.event_id in ids_of(step)
        ]
    return sorted(found, key=lambda each: each.at)


def _step_line(history: KeyHistory, step: HistoryStep[Any], *, personal: bool) -> StepLine:
    before, after = (as_seen(each, personal=personal) for each in (step.before, step.after))
    some = after if before is None else before
    initial = None if some is None else type(some)()
    changed = changes(initial if before is None else before, initial if after is None else after)
    emitted = [(each.type, each.id) for each in step.emitted]
    plain = [
        Change(each.path, *(None if side is ABSENT else side for side in (each.before, each.after))) for each in changed
    ]
    return StepLine(
        history.decider.name,
        history.service.name,
        step.kind,
        step.reason,
        step.at,
        emitted,
        plain,
        step.code_version,
        step.edited,
    )
