"""Instrumentation hooks, chosen when a task starts; zero cost when disabled.

A task without an observer runs `InputProcessor`; an observed task runs the subclass of this module.
"""

from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Protocol

from eventlib.eventlog import EventLog, Published
from eventlib.model.decider import Decider
from eventlib.model.effect import Asking
from eventlib.model.event import Event
from eventlib.model.identity import is_sampled
from eventlib.model.kept_error import KeptError
from eventlib.model.record import Record
from eventlib.model.service import Service
from eventlib.runtime.awaited import NEVER, awaits_of, deadlines_of, outcome_of
from eventlib.runtime.keyed_state import KeyedState
from eventlib.runtime.processor import InputProcessor
from eventlib.runtime.state import TaskState
from eventlib.runtime.transaction import Answer, ProcessingSpan, Transaction

Clock = Callable[[], int]
"""Nanoseconds since 1970."""


class Observer(Published, Protocol):
    """Receives what a runtime does. Its methods are called between two inputs and must not block."""

    clock: Clock

    def committed(self, service: Service, partition: int, transaction: Transaction, append_began_ns: int) -> None:
        """Record a committed transaction; `append_began_ns` is 0 if another task's append carried it."""

    def passed_by(self, service: Service, partition: int, spans: Sequence[ProcessingSpan]) -> None:
        """Record inputs that changed nothing, so that nothing was written."""

    async def attempt(
        self, service: Service, request: Record, asking: Asking, call: Coroutine[Any, Any, object]
    ) -> object:
        """Await an effect's call to an external system, and return its result or raise its error."""

    def waited(self, service: Service, request: Record, asking: Asking, limit: str, seconds: float) -> None:
        """Record that an attempt has waited for its turn at a limit until now."""

    def answered(self, service: Service, request: Record, began_ns: int, answer: Answer) -> None:
        """Record the final answer of an effect."""


class InstrumentedProcessor(InputProcessor):
    """Adds a `ProcessingSpan` for each step of a sampled saga, each deadline, parked input, and what an effect awaits."""

    def __init__(
        self, service: Service, partition: int, log: EventLog, state: TaskState, code_version: str, clock: Clock
    ) -> None:
        super().__init__(service, partition, log, state, code_version)
        self._clock = clock
        self._awaits = awaits_of(service)
        self._ends = deadlines_of(service)

    def decide(self, decider: Decider[Any], key: str, record: Record, event: Event) -> KeptError | None:
        """See `InputProcessor.decide`."""
        context = record.traceparent
        contract = event.__contract__
        if contract is not None and contract.request:  # one about a saga that runs already belongs to that
            context = self.state.entry(decider, key).traceparent or context
        expected = self._awaits.get((decider.name, type(event))) if self._awaits else None
        is_noted = expected is not None or is_sampled(context)
        began, before = self._clock() if is_noted else 0, len(self.draft.events)
        known = None if expected is None else self.state.entry(decider, key)
        is_again = known is not None and self._has_answered(decider, key, known, record)
        failure = super().decide(decider, key, record, event)
        if failure is not None or is_noted:
            ended, emitted, awaited = self._clock(), self.draft.events[before:], ""
            if failure is None and expected is not None and known is not None:
                awaited = outcome_of(expected, known, self.state.entry(decider, key), is_again=is_again)
            reason = "" if failure is None else failure.reason
            times = began or ended, ended
            self.draft.spans.append(
                ProcessingSpan(decider.name, key, context, *times, emitted, record, "", reason, awaited)
            )
        return failure

    def _has_answered(self, decider: Decider[Any], key: str, known: KeyedState, record: Record) -> bool:
        return self.answered.find(decider, key, known.memory, record.event_id, self.draft.at_ms) is not None

    def take_answer(self, answer: Answer) -> None:
        """See `InputProcessor.take_answer`."""
        began, before = self._clock(), len(self.draft.events)
        super().take_answer(answer)
        emitted = self.draft.events[before:]
        if emitted and is_sampled(emitted[0].traceparent):
            decider = (emitted[0].source or "").partition("/")[2]
            span = ProcessingSpan(
                decider, emitted[0].subject or "", emitted[0].traceparent, began, self._clock(), emitted
            )
            self.draft.spans.append(span)

    def _pass_deadline(self, decider: Decider[Any], key: str, name: str, at: int, entry: KeyedState) -> None:
        began, before = self._clock(), len(self.draft.events)
        super()._pass_deadline(decider, key, name, at, entry)
        emitted = self.draft.events[before:]
        awaited = NEVER if (decider.name, name) in self._ends else ""
        span = ProcessingSpan(
            decider.name, key, entry.traceparent, began, self._clock(), emitted, None, name, "", awaited
        )
        self.draft.spans.append(span)
