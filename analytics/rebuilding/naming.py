"""The names of generic tables."""

from eventlib.model.event import Event, contract_of
from eventlib.values import snake_case


def event_table(event: type[Event]) -> str:
    """Return the name of an event's table."""
    return f"event_{snake_case(contract_of(event).type)}"
