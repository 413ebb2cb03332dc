"""What operators do about inputs that could not be handled."""

from typing import TYPE_CHECKING

from eventlib.facade import lazy

if TYPE_CHECKING:
    from eventlib.queries.parked import Parking, parkings, waiting_inputs

__all__ = [
    "Parking",
    "parkings",
    "waiting_inputs",
]

if not TYPE_CHECKING:  # a type checker would take it for a sign that any name is there
    __getattr__ = lazy(
        __name__,
        {
            "queries.parked": ["Parking", "parkings", "waiting_inputs"],
        },
    )
