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
    """Packed events for a key, by the first of them: those of one saga, or of some.

    `folded` is what those of a saga have led to, if that is known: then they are packed only when another saga has the key.
    """

    at_ms: int
    depth: int
    topic: str
    partition: int
    offset: int
    field: str
    about: str
    saga: str | None
    folded: bytes | None
    events: bytes
