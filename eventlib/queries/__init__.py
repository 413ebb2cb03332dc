"""Reading what is on a log: states, sagas, records in their order, and projections that follow it.

It knows the event log and the records that the runtime writes. Begin with `decoding`, then `projection`.
"""

from typing import TYPE_CHECKING

from eventlib.ground.facade import lazy

if TYPE_CHECKING:
    from eventlib.model.identity import request_id
    from eventlib.model.saga import SagaEvent, saga_of
    from eventlib.queries.causal_order import in_order
    from eventlib.queries.decoding import event_topics
    from eventlib.queries.projection import Projection, ProjectionBehind
    from eventlib.queries.projection_file import View
    from eventlib.queries.saga_index import SagaIndex
    from eventlib.queries.state import state_of
    from eventlib.queries.state_index import StateIndex, StateRow
    from eventlib.queries.stream import tail

__all__ = [
    "Projection",
    "ProjectionBehind",
    "SagaEvent",
    "SagaIndex",
    "StateIndex",
    "StateRow",
    "View",
    "event_topics",
    "in_order",
    "request_id",
    "saga_of",
    "state_of",
    "tail",
]

if not TYPE_CHECKING:  # a type checker would take it for a sign that any name is there
    __getattr__ = lazy(__name__)
