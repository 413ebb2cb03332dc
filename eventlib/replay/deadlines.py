"""Replays deadlines: whether the current code would have those that passed, and which others would have passed."""

from collections.abc import Sequence
from typing import Any

from eventlib.model.decider import FORGET, Decider
from eventlib.model.event import Event
from eventlib.model.service import Service
from eventlib.replay.comparison import Decision
from eventlib.replay.context import SAME_CODE, ReplayContext, Taken, after
from eventlib.replay.journal_steps import DeadlinePassed
from eventlib.replay.partition_buffer import Item
from eventlib.replay.report import Input, Kind
from eventlib.runtime.emit import Cause, cause_of_deadline, entry_after, meta_of_deadline
from eventlib.runtime.keyed_state import KeyedState, due_times
from eventlib.values import from_ms


class Deadlines:
    """The deadlines of one task's deciders."""

    def __init__(self, service: Service, context: ReplayContext) -> None:
        self._service = service.name
        self._context = context
        self._deciders = {decider.name: decider for decider in service.deciders}
        self._reported: set[DeadlinePassed] = set()

    def passed(self, deadline: DeadlinePassed, then: Sequence[Item], *, judges: bool, same_code: bool) -> None:
        """Apply a deadline that passed; `then` is what was emitted for it."""
        decider = self._deciders.get(deadline.decider)
        if decider is None:
            if judges:
                self._differs(deadline, then, kind="no-deadline", why="the current code has no such decider")
            return
        entries = self._context.entries[decider.name]
        entry = entries.get(deadline.key)
        due_ms = due_times(decider, entry.state, entry.memory).get(deadline.name)
        cause = cause_of_deadline((decider.name, deadline.key), deadline.name, deadline.due_ms, entry)
        if deadline.name == FORGET:
            if due_ms is not None and due_ms <= deadline.at_ms:  # the current code decides how long a state is kept
                entries.put(deadline.key, entry_after(entry, decider, cause, None, ()))
            return
        failure: Exception | None = None
        try:
            state = after(decider, entry.state, then)
        except Exception as error:  # noqa: BLE001  whatever the current code raises is a difference
            state, failure = entry.state, error.with_traceback(None)
        if judges and self._context.asked.about(cause.correlation_id):
            self._tell(decider, deadline, entry, cause, then)
            old = SAME_CODE if same_code else ""
            if due_ms == deadline.due_ms:
                now, failed = self._emit(decider, deadline, entry)
                self._context.judge(self._decision(deadline, then, now, why=old), failed or failure)
            else:
                why = "it is never due now" if due_ms is None else f"it is due at {from_ms(due_ms).isoformat()} now"
                self._differs(deadline, then, kind="no-deadline", why=f"{why}; {old}" if old else why)
        entry = entry.replace(memory=entry.memory.with_passed(deadline.name, deadline.due_ms))
        entries.put(deadline.key, entry_after(entry, decider, cause, state, [record for record, _ in then]))

    def fallen_due(
        self, decider: Decider[Any], key: str, entry: KeyedState, until_ms: int, *, judged: bool
    ) -> KeyedState:
        """Drop a state that would have expired by a time; report deadlines that would have passed.

        Only for transactions of another code version: otherwise the journal has every deadline that passed.
        """
        for name, due_ms in due_times(decider, entry.state, entry.memory).items():
            if due_ms >= until_ms:
                continue
            if name == FORGET:
                return entry.replace(state=None)
            deadline = DeadlinePassed(decider.name, key, name, due_ms, at_ms=until_ms)
            if judged and deadline._replace(at_ms=0) not in self._reported:
                self._reported.add(deadline._replace(at_ms=0))
                now, failure = self._emit(decider, deadline, entry)
                why = (
                    f"due at {from_ms(due_ms).isoformat()}, it would have passed before {from_ms(until_ms).isoformat()}"
                )
                decision = self._decision(deadline, (), now, kind="overdue", why=why)
                self._context.judge(decision, failure)
        return entry

    def _emit(
        self, decider: Decider[Any], deadline: DeadlinePassed, entry: KeyedState
    ) -> tuple[Sequence[Event], Exception | None]:
        """Return what the current code emits when a deadline passes, or what it raises."""
        cause = cause_of_deadline((decider.name, deadline.key), deadline.name, deadline.due_ms, entry)
        meta = meta_of_deadline(cause, deadline.at_ms, f"{self._service}/{decider.name}", deadline.key)
        try:
            return decider.answer_deadline(deadline.name, entry.state, meta), None
        except Exception as error:  # noqa: BLE001  as above
            return (), error.with_traceback(None)

    def _tell(
        self, decider: Decider[Any], deadline: DeadlinePassed, entry: KeyedState, cause: Cause, then: Sequence[Item]
    ) -> None:
        if self._context.tap is not None:
            source, at_ms = f"{self._service}/{decider.name}", deadline.at_ms
            meta = meta_of_deadline(cause, at_ms, source, deadline.key)
            name, saga = deadline.name, cause.correlation_id
            self._context.tap(Taken(source, decider, deadline.key, saga, at_ms, entry.state, None, name, meta, then))

    def _differs(self, deadline: DeadlinePassed, then: Sequence[Item], *, kind: Kind, why: str) -> None:
        self._context.judge(self._decision(deadline, then, (), kind=kind, why=why), None)

    def _decision(
        self,
        deadline: DeadlinePassed,
        then: Sequence[Item],
        now: Sequence[Event],
        *,
        kind: Kind | None = None,
        why: str = "",
    ) -> Decision:
        decider = self._deciders.get(deadline.decider)
        declared = None if decider is None else decider.deadlines.get(deadline.name)
        handler = deadline.name if declared is None or declared.handler is None else declared.handler.name
        name = f"{self._service}/{deadline.decider}.{handler}"
        return Decision(name, deadline.key, deadline.at_ms, Input(deadline.name, deadline.id), then, now, kind, why)
