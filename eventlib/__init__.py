"""Event-driven services and sagas on a log: pure deciders, and a runtime for everything that is hard."""

from eventlib.choreography import Choreography
from eventlib.decider import Decider
from eventlib.effect import FOREVER, Retry
from eventlib.errors import EventlibError, OutcomeUnknown, Retryable, Terminal, WiringError
from eventlib.event import Event, Meta, Position
from eventlib.eventlog import EventLog, Publication
from eventlib.globaltable import GlobalTable
from eventlib.opening import open_log
from eventlib.runtime import Runtime, RuntimeConfig
from eventlib.service import Service
from eventlib.topic import Topic

__all__ = [
    "FOREVER",
    "Choreography",
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
    "Service",
    "Terminal",
    "Topic",
    "WiringError",
    "open_log",
]
