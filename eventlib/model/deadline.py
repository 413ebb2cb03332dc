"""Deadlines: times that follow from a state."""

from collections.abc import Callable
from datetime import datetime
from typing import Any, Generic, TypeVar, overload

from eventlib.errors import WiringError
from eventlib.model import signatures
from eventlib.model.event import Event, Meta
from eventlib.model.handler import Handler, handler_of

S = TypeVar("S")
R = TypeVar("R", bound=Event)


class Deadline(Generic[S]):
    """A time that follows from the state, and what is emitted when it has passed."""

    def __init__(self, decider: str, due_at: Callable[[S], datetime | None]) -> None:
        self.name = signatures.name_of(due_at)
        self.due_at = due_at
        self.handler: Handler | None = None
        self._decider = decider

    @overload
    def passed(self, handler: Callable[[S], list[R]]) -> Callable[[S], list[R]]: ...
    @overload
    def passed(self, handler: Callable[[S, Meta], list[R]]) -> Callable[[S, Meta], list[R]]: ...
    def passed(self, handler: Callable[..., Any]) -> Callable[..., Any]:
        """Declare what is emitted when the deadline has passed: a pure function of the state, and Meta if it wants it."""
        where = f"{self._decider}.{signatures.name_of(handler)}"
        if self.handler is not None:
            raise WiringError(f"{where}: deadline {self.name} has a handler already, {self.handler.name}")
        self.handler = handler_of(handler, signatures.hints_of(handler, where, 2), 1, where)
        return handler
