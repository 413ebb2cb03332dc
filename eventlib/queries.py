"""Reading what is on a log: states, sagas, records in their order, and projections that follow it."""

from eventlib.inspection.decoding import event_topics
from eventlib.inspection.ordering import in_order
from eventlib.inspection.state import state_of
from eventlib.inspection.tail import tail
from eventlib.projection import Projection, ProjectionBehind, View, Waiters
from eventlib.saga import SagaEvent, saga_of

__all__ = [
    "Projection",
    "ProjectionBehind",
    "SagaEvent",
    "View",
    "Waiters",
    "event_topics",
    "in_order",
    "saga_of",
    "state_of",
    "tail",
]
