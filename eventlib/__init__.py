"""Event-driven services and sagas on a log: pure deciders, and a runtime for everything that is hard."""

from typing import TYPE_CHECKING

from eventlib.ground.facade import lazy

if TYPE_CHECKING:
    from eventlib.errors import ContractError, EventlibError, OutcomeUnknown, RetryableError, TerminalError, WiringError
    from eventlib.eventlog import EventLog
    from eventlib.model.choreography import Choreography
    from eventlib.model.decider import Decider
    from eventlib.model.effect import FOREVER, Retry
    from eventlib.model.event import Event, Meta, Position
    from eventlib.model.evolution import Aliases, unknown_is, upcasts, wire_name
    from eventlib.model.measures import Money, Units
    from eventlib.model.saga_status import SagaState, SagaStates
    from eventlib.model.service import Service
    from eventlib.model.states import replace
    from eventlib.model.topic import Topic
    from eventlib.opening import open_log
    from eventlib.publication import Publication
    from eventlib.runtime.config import RuntimeConfig
    from eventlib.runtime.runtime import Runtime
    from eventlib.state.global_table import GlobalTable

__all__ = [
    "FOREVER",
    "Aliases",
    "Choreography",
    "ContractError",
    "Decider",
    "Event",
    "EventLog",
    "EventlibError",
    "GlobalTable",
    "Meta",
    "Money",
    "OutcomeUnknown",
    "Position",
    "Publication",
    "Retry",
    "RetryableError",
    "Runtime",
    "RuntimeConfig",
    "SagaState",
    "SagaStates",
    "Service",
    "TerminalError",
    "Topic",
    "Units",
    "WiringError",
    "open_log",
    "replace",
    "unknown_is",
    "upcasts",
    "wire_name",
]

if not TYPE_CHECKING:  # a type checker would take it for a sign that any name is there
    __getattr__ = lazy(__name__)
