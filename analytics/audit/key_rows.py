"""The rows that events become for each key that an invariant is about."""

from typing import NamedTuple

from analytics.audit.finding import Rule

UNREADABLE = Rule("unreadable", "error", "Every event can be read as what its type says.")
MISKEYED = Rule("key-differs", "error", "An event's key is what its own field says.")

LATEST = 1 << 30
"""The depth of a decider's state: after all its events."""

FOR_EVER = 1 << 62
"""The time of a decider's state: after all its events."""


class Row(NamedTuple):
    """The packed events of one saga for a key, by the first of them; `folded` is what they have led to, if that is known."""

    at_ms: int
    depth: int
    topic: str
    partition: int
    offset: int
    field: str
    about: str
    folded: bytes | None
    events: bytes
