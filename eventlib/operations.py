"""What operators do about inputs that could not be handled."""

from eventlib.inspection.parked import Parking, parkings, waiting_inputs

__all__ = [
    "Parking",
    "parkings",
    "waiting_inputs",
]
