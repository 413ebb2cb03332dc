"""Handlers: the pure functions that decide, and what they may emit."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from eventlib.errors import WiringError
from eventlib.model import signatures
from eventlib.model.event import Event, contract_of


@dataclass(frozen=True, slots=True)
class Handler:
    """The function of a decider for one event, and the events that it may emit."""

    call: Callable[..., Sequence[Event]]  # which may return None for nothing
    emits: tuple[type[Event], ...]
    wants_meta: bool

    @property
    def name(self) -> str:
        """The function's name, for messages."""
        return signatures.name_of(self.call)


def handler_of(function: Callable[..., Any], hints: signatures.Hints, arguments: int, where: str) -> Handler:
    """Read a handler off a function that takes so many `arguments`, or Meta as well. Raises: WiringError."""
    signatures.refuse_async(function, where)
    wants_meta = signatures.takes_meta(function, arguments, where)
    emits = signatures.emitted(hints, where)
    refuse_unemittable(emits, where)
    return Handler(function, emits, wants_meta)


def refuse_unemittable(events: Sequence[type[Event]], where: str) -> None:
    """Refuse events that cannot be emitted: requests come only from outside, and others write external topics."""
    for event_type in events:
        if contract_of(event_type).external is not None:
            raise WiringError(
                f"{where}: {event_type.__name__} is external: others write its topic, and no service here"
            )
        if contract_of(event_type).request:
            raise WiringError(f"{where}: {event_type.__name__} is a request, and those come only from outside")


def follows(_state: object, _event: Event) -> Sequence[Event]:
    """Emit nothing: the handler of events that only change a state."""
    return ()


FOLLOWS = Handler(follows, (), wants_meta=False)
"""The handler of events that only change a decider's state."""
