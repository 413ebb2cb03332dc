"""Other rules for an application that is there: some handlers of a decider instead of its own."""

from collections.abc import Callable, Sequence
from copy import copy
from typing import Any

from eventlib.model import signatures
from eventlib.model.choreography import Choreography
from eventlib.model.decider import Decider
from eventlib.model.event import Event


def rewritten(
    choreography: Choreography, decider: Decider[Any], *handlers: Callable[..., Sequence[Event]]
) -> Choreography:
    """Return a choreography in which a decider has these handlers instead of its own for the same events.

    `tomorrow = rewritten(shop, orders, place)`, with a `place` as one writes it under `@orders.on`.
    Raises: WiringError for a handler that does not fit, or of an event that the decider does not handle.
    """
    made: Any = copy(decider)  # its `on` is typed by the handler that is written under it
    made.handlers = dict(decider.handlers)
    for handler in handlers:
        where = f"{decider.name}.{signatures.name_of(handler)}"
        for event in signatures.handled(handler, signatures.hints_of(handler, where, 3), where):
            made.handlers.pop(event, None)
        made.on(handler)
    services = list[Any]()
    for service in choreography.services:
        played = copy(service)
        played.deciders = tuple(made if each is decider else each for each in service.deciders)
        services.append(played)
    checked = Choreography(choreography.name, services, facts=choreography.facts)
    other = copy(choreography)
    other.services, other.topics, other.failures = checked.services, checked.topics, checked.failures
    return other
