"""Event-driven services and sagas on a log: pure deciders, and a runtime for everything that is hard."""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from eventlib.choreography import Choreography
    from eventlib.decider import Decider
    from eventlib.effect import FOREVER, Retry
    from eventlib.errors import ContractError, EventlibError, OutcomeUnknown, Retryable, Terminal, WiringError
    from eventlib.event import Event, Meta, Position
    from eventlib.eventlog import EventLog, Publication
    from eventlib.evolution import Aliases, unknown_is, upcasts, wire_name
    from eventlib.globaltable import GlobalTable
    from eventlib.opening import open_log
    from eventlib.runtime import Runtime, RuntimeConfig
    from eventlib.sagastates import SagaState, SagaStates
    from eventlib.service import Service
    from eventlib.states import replace
    from eventlib.topic import Topic

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
    "OutcomeUnknown",
    "Position",
    "Publication",
    "Retry",
    "Retryable",
    "Runtime",
    "RuntimeConfig",
    "SagaState",
    "SagaStates",
    "Service",
    "Terminal",
    "Topic",
    "WiringError",
    "open_log",
    "replace",
    "unknown_is",
    "upcasts",
    "wire_name",
]

_NAMES = {
    "choreography": ["Choreography"],
    "decider": ["Decider"],
    "effect": ["FOREVER", "Retry"],
    "errors": ["ContractError", "EventlibError", "OutcomeUnknown", "Retryable", "Terminal", "WiringError"],
    "event": ["Event", "Meta", "Position"],
    "eventlog": ["EventLog", "Publication"],
    "evolution": ["Aliases", "unknown_is", "upcasts", "wire_name"],
    "globaltable": ["GlobalTable"],
    "opening": ["open_log"],
    "runtime": ["Runtime", "RuntimeConfig"],
    "sagastates": ["SagaState", "SagaStates"],
    "service": ["Service"],
    "states": ["replace"],
    "topic": ["Topic"],
}
_HOMES = {name: module for module, names in _NAMES.items() for name in names}
"""Where each name comes from. It is imported when it is asked for: the command line shows its help without all that."""

if not TYPE_CHECKING:  # a type checker would take it for a sign that any name is there

    def __getattr__(name: str) -> object:
        if name not in _HOMES:
            raise AttributeError(f"module 'eventlib' has no attribute {name!r}")
        found = getattr(import_module(f"eventlib.{_HOMES[name]}"), name)
        globals()[name] = found
        return found
