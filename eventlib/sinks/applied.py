"""What a sink has done in one transaction, for those who watch it."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from eventlib.model.record import Record


class Applied(NamedTuple):
    """Records whose rows were committed together, each with the error that it is parked with; empty when it was applied.

    `began_ns` and `ended_ns` are since 1970.
    """

    sink: str
    outcomes: Sequence[tuple[Record, str]]
    began_ns: int
    ended_ns: int


ObserveApplied = Callable[[Applied], None]
"""Is called after each transaction."""


def unobserved(_: Applied) -> None:
    """Take no note."""
