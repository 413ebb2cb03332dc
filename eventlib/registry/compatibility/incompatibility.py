"""What keeps one schema from reading what another has written."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Incompatibility:
    """A rule that is broken, where in the schema, and what to do about it."""

    rule: str
    path: str
    message: str
