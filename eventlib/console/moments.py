"""A saga at one of its moments: the state of each decider, and what the step at that moment changed."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, NamedTuple

from eventlib.console.reading import as_seen
from eventlib.json_form import json_of
from eventlib.model.decider import FORGET
from eventlib.model.record import Record
from eventlib.model.saga import Saga
from eventlib.replay.comparison import ABSENT, Change, changes
from eventlib.replay.key_history import KeyHistory
from eventlib.replay.point_in_time import ids_of, waits
from eventlib.replay.steps import HistoryStep
from eventlib.values import to_ms


class FieldLine(NamedTuple):
    """A field of a state at a moment; where the moment's steps changed it, also as it was `before`."""

    name: str
    value: Any
    before: Any
    is_changed: bool


class DeciderMoment(NamedTuple):
    """What a decider knew at a moment: its `last` step by then (none before its first input), and its state's fields.

    A key that is forgotten has no fields. `waits` says why an input of it is parked.
    """

    history: KeyHistory
    last: HistoryStep[Any] | None
    fields: Sequence[FieldLine]
    deadlines: Sequence[tuple[str, datetime]]
    waits: str


class SeenStep(NamedTuple):
    """A step of a decider with an event, and what changed in its state, as a caller may see it."""

    history: KeyHistory
    step: HistoryStep[Any]
    changes: Sequence[Change]


def moment_of(saga: Saga, histories: Sequence[KeyHistory], number: int, *, personal: bool) -> Sequence[DeciderMoment]:
    """Return what each decider knew after a saga's event of a number, from 1: all of that millisecond is in it.

    After the last one it is as it is now: what handled that event is in it, too.
    """
    at_ms = saga.events[number - 1].record.timestamp_ms
    until_ms = at_ms if number < len(saga.events) else None
    return [_decider_moment(history, at_ms, until_ms, personal=personal) for history in histories]


def _decider_moment(history: KeyHistory, at_ms: int, until_ms: int | None, *, personal: bool) -> DeciderMoment:
    until = [step for step in history.steps if until_ms is None or to_ms(step.at) <= until_ms]
    now = [step for step in until if to_ms(step.at) >= at_ms]
    last = until[-1] if until else None
    state = None if last is None else last.after
    fields = _fields(state, now[0].before if now else state, is_moved=bool(now), personal=personal)
    deadlines = [] if last is None else [(name, at) for name, at in last.deadlines.items() if name != FORGET]
    return DeciderMoment(history, last, fields, sorted(deadlines, key=lambda each: each[1]), waits(until))


def _fields(state: Any, before: Any, *, is_moved: bool, personal: bool) -> Sequence[FieldLine]:
    if state is None:
        return []
    shown = _values(as_seen(state, personal=personal))
    was = _values(as_seen(before, personal=personal)) if before is not None else _values(type(state)())
    return [FieldLine(name, value, was.get(name), is_moved and was.get(name) != value) for name, value in shown.items()]


def _values(state: Any) -> dict[str, Any]:
    found = json_of(state)
    return found if isinstance(found, dict) else {"value": found}


def steps_about(histories: Sequence[KeyHistory], record: Record, *, personal: bool) -> Sequence[SeenStep]:
    """Return what each decider did with an event, and the step in which one emitted it."""
    found = [
        SeenStep(history, step, _changes(step, personal=personal))
        for history in histories
        for step in history.steps
        if record.event_id in ids_of(step)
    ]
    return sorted(found, key=lambda each: each.step.at)


def _changes(step: HistoryStep[Any], *, personal: bool) -> Sequence[Change]:
    before, after = (as_seen(each, personal=personal) for each in (step.before, step.after))
    some = after if before is None else before
    initial = None if some is None else type(some)()
    changed = changes(initial if before is None else before, initial if after is None else after)
    return [
        Change(each.path, *(None if side is ABSENT else side for side in (each.before, each.after))) for each in changed
    ]
