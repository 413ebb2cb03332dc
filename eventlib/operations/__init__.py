"""Operators' commands: status, parked inputs, seeks and skips."""

from typing import TYPE_CHECKING

from eventlib.facade import lazy

if TYPE_CHECKING:
    from eventlib.queries.parked import Parking, parkings, waiting_inputs

__all__ = [
    "Parking",
    "parkings",
    "waiting_inputs",
]

if not TYPE_CHECKING:  # a type checker would conclude that every name exists
    __getattr__ = lazy(
        __name__,
        {
            "queries.parked": ["Parking", "parkings", "waiting_inputs"],
        },
    )
