"""Deadlines, replayed: whether today's code would have those that passed, and which others would have passed."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from eventlib.model.decider import FORGET, Decider
from eventlib.model.event import Event
from eventlib.model.identity import deadline_id
from eventlib.model.service import Service
from eventlib.replay.comparison import Decision
from eventlib.replay.context import ReplayContext, after
from eventlib.replay.partition_buffer import Item
from eventlib.replay.report import Input, Kind
from eventlib.runtime.emit import cause_of_deadline, entry_after, meta_of_deadline
from eventlib.runtime.keyed_state import KeyedState, due_times
from eventlib.values import from_ms


class Passing(NamedTuple):
    """A deadline of a decider's key that passes, at a time (ms) not before it is due."""

    decider: str
    name: str
    key: str
    due_ms: int
    at_ms: int

    @property
    def id(self) -> str:
        """What the ids of all that is said about it derive from."""
        return deadline_id(self.decider, self.key, self.name, self.due_ms)


class Deadlines:
    """The deadlines of one task's deciders."""

    def __init__(self, service: Service, setting: ReplayContext) -> None:
        self._service = service.name
        self._setting = setting
        self._deciders = {decider.name: decider for decider in service.deciders}
        self._told: set[Passing] = set()

    def passed(self, passing: Passing, then: Sequence[Item], *, judges: bool) -> None:
        """Let a deadline pass as it did; `then` is what was said about it."""
        decider = self._deciders.get(passing.decider)
        if decider is None:
            if judges:
                self._differs(passing, then, kind="no-deadline", why="there is no such decider today")
            return
        entries = self._setting.entries[decider.name]
        entry = entries.get(passing.key)
        due_ms = due_times(decider, entry.state, entry.memory).get(passing.name)
        cause = cause_of_deadline((decider.name, passing.key), passing.name, passing.due_ms, entry)
        if passing.name == FORGET:
            if due_ms is not None and due_ms <= passing.at_ms:  # a state is kept for as long as today's code says
                entries.put(passing.key, entry_after(entry, decider, cause, None, ()))
            return
        failure: Exception | None = None
        try:
            state = after(decider, entry.state, then)
        except Exception as error:  # noqa: BLE001  whatever today's code raises is a difference
            state, failure = entry.state, error.with_traceback(None)
        if judges and self._setting.asked.about(cause.correlation_id):
            if due_ms == passing.due_ms:
                now, failed = self._said(decider, passing, entry)
                self._setting.judge(self._decision(passing, then, now), failed or failure)
            else:
                why = "today it is never due" if due_ms is None else f"today it is due at {from_ms(due_ms).isoformat()}"
                self._differs(passing, then, kind="no-deadline", why=why)
        entry = entry._replace(memory=entry.memory.with_passed(passing.name, passing.due_ms))
        entries.put(passing.key, entry_after(entry, decider, cause, state, [record for record, _ in then]))

    def fallen_due(
        self, decider: Decider[Any], key: str, entry: KeyedState, until_ms: int, *, judged: bool
    ) -> KeyedState:
        """Return an entry without a state that would be forgotten by a time; tell of deadlines that would have passed.

        For what another version of the code did only: where it was the same, what passed in time is on the journal.
        """
        for name, due_ms in due_times(decider, entry.state, entry.memory).items():
            if due_ms >= until_ms:
                continue
            if name == FORGET:
                return entry._replace(state=None)
            passing = Passing(decider.name, name, key, due_ms, until_ms)
            if judged and passing._replace(at_ms=0) not in self._told:
                self._told.add(passing._replace(at_ms=0))
                now, failure = self._said(decider, passing, entry)
                why = (
                    f"due at {from_ms(due_ms).isoformat()}, it would have passed before {from_ms(until_ms).isoformat()}"
                )
                decision = self._decision(passing, (), now, kind="overdue", why=why)
                self._setting.judge(decision, failure)
        return entry

    def _said(
        self, decider: Decider[Any], passing: Passing, entry: KeyedState
    ) -> tuple[Sequence[Event], Exception | None]:
        """Return what today's code says when a deadline passes, or what it raises."""
        cause = cause_of_deadline((decider.name, passing.key), passing.name, passing.due_ms, entry)
        meta = meta_of_deadline(cause, passing.at_ms, f"{self._service}/{decider.name}", passing.key)
        try:
            return decider.answer_deadline(passing.name, entry.state, meta), None
        except Exception as error:  # noqa: BLE001  as above
            return (), error.with_traceback(None)

    def _differs(self, passing: Passing, then: Sequence[Item], *, kind: Kind, why: str) -> None:
        self._setting.judge(self._decision(passing, then, (), kind=kind, why=why), None)

    def _decision(
        self, passing: Passing, then: Sequence[Item], now: Sequence[Event], *, kind: Kind | None = None, why: str = ""
    ) -> Decision:
        decider = self._deciders.get(passing.decider)
        deadline = None if decider is None else decider.deadlines.get(passing.name)
        handler = passing.name if deadline is None or deadline.handler is None else deadline.handler.name
        name = f"{self._service}/{passing.decider}.{handler}"
        return Decision(name, passing.key, passing.at_ms, Input(passing.name, passing.id), then, now, kind, why)
