"""Given what happened, when this arrives, then this is emitted: a decider's test, without a log.

PYTEST_DONT_REWRITE, since pytest rewrites the modules of a package that has a plugin: what differs is told here.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, Generic, TypeVar

from eventlib.analysis import purity
from eventlib.ground.arguments import A_DECIDER, check, check_each
from eventlib.model.decider import Decider, EmittedMeta
from eventlib.model.event import Event, Meta, key_of
from eventlib.model.identity import derived_id

S = TypeVar("S")

DEFAULT_TIME = datetime(2026, 1, 1, 12, tzinfo=UTC)


@dataclass(frozen=True)
class Given(Generic[S]):
    """A decider with a history: every event of it was handled, or emitted, by the decider.

    Immutable: each step returns a new one, so that a common beginning can be shared by tests.
    """

    decider: Decider[S]
    state: S
    at: datetime = DEFAULT_TIME
    key: str = "key"
    emitted: list[Event] = field(default_factory=list)

    def on(self, at: datetime) -> "Given[S]":
        """Let what follows happen at this time (UTC)."""
        return replace(self, at=at)

    def when(self, *inputs: Event) -> "Given[S]":
        """Hand events to the decider, one after the other; what each emits is evolved, and collected for `then`."""
        state, emitted = self.state, list[Event]()
        key = self.key
        for event in inputs:
            key = key_of(event) or self.key
            meta = self._meta(event, key)
            after, answers = self.decider.decide(state, event, meta, self._emitted_meta(meta, key))
            state = self.decider.initial if after is None else after
            emitted += answers
        return replace(self, state=state, emitted=emitted, key=key)

    def when_passed(self, deadline: str) -> "Given[S]":
        """Let a deadline pass, at the time that the state gives for it. Raises: AssertionError when there is none."""
        due = self.decider.due(self.state)
        assert deadline in due, f"deadline {deadline} is not due in {self.state}; due are {sorted(due) or 'none'}"  # noqa: S101  a test's own words
        meta = self._meta(None, self.key)._replace(recorded_at=max(self.at, due[deadline]))
        after, emitted = self.decider.pass_deadline(deadline, self.state, meta, self._emitted_meta(meta, self.key))
        return replace(
            self, state=self.decider.initial if after is None else after, emitted=emitted, at=meta.recorded_at
        )

    def then(self, *expected: Event) -> "Given[S]":
        """Check what was emitted since `when`: exactly these events, in this order."""
        assert self.emitted == list(expected), _difference(list(expected), self.emitted)  # noqa: S101  a test's own words
        return self

    def then_state(self, **fields: Any) -> "Given[S]":
        """Check fields of the state."""
        found = {name: getattr(self.state, name) for name in fields}
        assert found == fields, f"expected {fields}\nbut the state has {found}\nin {self.state}"  # noqa: S101  a test's own words
        return self

    def then_due(self, **deadlines: datetime | None) -> "Given[S]":
        """Check when deadlines fall due (UTC), by name; None: not at all. `forget` is when the key is given up."""
        due = self.decider.due(self.state)
        found = {name: due.get(name) for name in deadlines}
        assert found == deadlines, f"expected to be due {deadlines}\nbut found {found}\nof {self.state}"  # noqa: S101  a test's own words
        return self

    def _meta(self, event: Event | None, key: str) -> Meta:
        name = "deadline" if event is None else type(event).__name__
        cause = derived_id(name, self.decider.name, key, 0)
        return Meta(id=cause, recorded_at=self.at, correlation_id=cause, subject=key)

    def _emitted_meta(self, cause: Meta, key: str) -> EmittedMeta:
        def meta(_emitted: Sequence[Event], ordinal: int) -> Meta:
            return cause._replace(id=derived_id(cause.id, self.decider.name, key, ordinal), causation_id=cause.id)

        return meta


def given(decider: Decider[S], *history: Event, at: datetime = DEFAULT_TIME) -> Given[S]:
    """Begin a test: the decider's state after a history of events that it handled or emitted.

    Raises: WiringError for what `eventlib check` finds wrong in the decider's functions.
    """
    check(decider, Decider, "decider", A_DECIDER)
    purity.refuse(decider)
    history = check_each(history, Event, "history", "give events, one after the other: given(orders, placed, paid)")
    state: S | None = decider.initial
    key = "key"
    for event in history:
        key = key_of(event) or key
        meta = Meta(id=derived_id(type(event).__name__, decider.name, key, 0), recorded_at=at, subject=key)
        state = decider.evolved(decider.initial if state is None else state, event, meta)
        if state is None and not decider.may_forget:
            raise decider.lost(event)
    return Given(decider, decider.initial if state is None else state, at=at, key=key)


def _difference(expected: list[Event], emitted: list[Event]) -> str:
    def lines(events: list[Event]) -> str:
        return "\n".join(f"  {event!r}" for event in events) or "  nothing"

    return f"expected to be emitted:\n{lines(expected)}\nbut was emitted:\n{lines(emitted)}"
