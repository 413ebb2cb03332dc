"""The names of generic tables."""

import re

from eventlib.model.event import Event, contract_of


def snake(name: str) -> str:
    """Return a type's name as SQL writes names: OrderPlaced is order_placed."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()


def event_table(event: type[Event]) -> str:
    """Return the name of an event's table."""
    return f"event_{snake(contract_of(event).type)}"
