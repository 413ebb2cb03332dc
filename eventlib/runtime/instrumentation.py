"""What a runtime tells whoever observes it, and how it learns that: decided when a task starts, so that nobody pays for it.

A task that nobody observes runs `InputProcessor` itself; one that is observed runs this subclass of it.
"""

from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Protocol

from eventlib.eventlog import EventLog, Published
from eventlib.log.base import Record
from eventlib.model.decider import Decider
from eventlib.model.effect import Asking
from eventlib.model.event import Event
from eventlib.model.identity import is_sampled
from eventlib.model.service import Service
from eventlib.runtime.keyed_state import KeyedState
from eventlib.runtime.parking.parked import Failure
from eventlib.runtime.processor import InputProcessor
from eventlib.runtime.state import TaskState
from eventlib.runtime.transaction import Answer, ProcessingSpan, Transaction

Clock = Callable[[], int]
"""Nanoseconds since 1970."""


class Observer(Published, Protocol):
    """Whoever wants to know what a runtime does. Its methods are called between two inputs: they return at once."""

    clock: Clock

    def committed(self, service: Service, partition: int, transaction: Transaction, append_began_ns: int) -> None:
        """Take note of a task's transaction that is on the log now; 0: it was appended with others', which led it."""

    def passed_by(self, service: Service, partition: int, hops: Sequence[ProcessingSpan]) -> None:
        """Take note of inputs that made no difference, so that nothing was written."""

    async def attempt(
        self, service: Service, request: Record, asking: Asking, call: Coroutine[Any, Any, object]
    ) -> object:
        """Await an effect's call to the outside, and return or raise what it does."""

    def answered(self, service: Service, request: Record, began_ns: int, answer: Answer) -> None:
        """Take note of what an effect came back with in the end."""


class InstrumentedProcessor(InputProcessor):
    """Handling that leaves a `ProcessingSpan` for what belongs to a saga that is traced, for each deadline, and for what is parked."""

    def __init__(
        self, service: Service, partition: int, log: EventLog, state: TaskState, code_version: str, clock: Clock
    ) -> None:
        super().__init__(service, partition, log, state, code_version)
        self._clock = clock

    def decide(self, decider: Decider[Any], key: str, record: Record, event: Event) -> Failure | None:
        """See `InputProcessor.decide`."""
        context = record.traceparent
        contract = event.__contract__
        if contract is not None and contract.request:  # one about a saga that runs already belongs to that
            context = self.state.entry(decider, key).traceparent or context
        if not is_sampled(context):
            failure = super().decide(decider, key, record, event)
            if failure is not None:
                now = self._clock()
                self.draft.hops.append(
                    ProcessingSpan(decider.name, key, context, now, now, (), record, "", failure.reason)
                )
            return failure
        draft, began = self.draft, self._clock()
        before = len(draft.events)
        failure = super().decide(decider, key, record, event)
        said, reason = draft.events[before:], "" if failure is None else failure.reason
        draft.hops.append(ProcessingSpan(decider.name, key, context, began, self._clock(), said, record, "", reason))
        return failure

    def take_answer(self, answer: Answer) -> None:
        """See `InputProcessor.take_answer`."""
        began, before = self._clock(), len(self.draft.events)
        super().take_answer(answer)
        said = self.draft.events[before:]
        if said and is_sampled(said[0].traceparent):
            decider = (said[0].source or "").partition("/")[2]
            hop = ProcessingSpan(decider, said[0].subject or "", said[0].traceparent, began, self._clock(), said)
            self.draft.hops.append(hop)

    def _pass_deadline(self, decider: Decider[Any], key: str, name: str, at: int, entry: KeyedState) -> None:
        began, before = self._clock(), len(self.draft.events)
        super()._pass_deadline(decider, key, name, at, entry)
        said = self.draft.events[before:]
        hop = ProcessingSpan(decider.name, key, entry.traceparent, began, self._clock(), said, None, name)
        self.draft.hops.append(hop)
