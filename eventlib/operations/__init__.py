"""Acts and questions of operators: status, parked inputs, pauses, reruns, erasure, backups, the doctor.

It knows the runtime, queries and replay. Begin with `status` and `parked_commands`.
"""

from typing import TYPE_CHECKING

from eventlib.ground.facade import lazy

if TYPE_CHECKING:
    from eventlib.ground.histogram import Histogram
    from eventlib.queries.parked import Parking, parkings, waiting_inputs

__all__ = [
    "Histogram",
    "Parking",
    "parkings",
    "waiting_inputs",
]

if not TYPE_CHECKING:  # a type checker would conclude that every name exists
    __getattr__ = lazy(__name__)
