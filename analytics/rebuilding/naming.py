"""The names of generic tables."""

from analytics.history.tables import snake
from eventlib.model.event import Event, contract_of


def event_table(event: type[Event]) -> str:
    """Return the name of an event's table."""
    return f"event_{snake(contract_of(event).type)}"
