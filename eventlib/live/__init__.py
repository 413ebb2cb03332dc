"""Live views: streams that people watch while they flow, on Faust. See README.md beside this file.

Only this package imports Faust. A view decides nothing: whatever it shows can be computed again from the log.

It knows settings, contracts and the log. Begin with `app`.
"""

from eventlib.live.app import LiveApp
from eventlib.live.events import Carried, CarriedStream, Origin, Recorded, RecordedStream
from eventlib.live.joins import added
from eventlib.live.rows import SEPARATOR, Row, with_known
from eventlib.live.timed import Keeping

__all__ = [
    "SEPARATOR",
    "Carried",
    "CarriedStream",
    "Keeping",
    "LiveApp",
    "Origin",
    "Recorded",
    "RecordedStream",
    "Row",
    "added",
    "with_known",
]
