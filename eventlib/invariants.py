"""Invariants: what holds whatever happens, declared once, and checked wherever there are events.

An invariant is a pure predicate over what is known of one key: a `Fold` of every event that has the key's field, a decider's
state, or what the `ExternalState` world has. The simulator checks a choreography's invariants after each commit and when all has
come to rest; a test, a metric and a batch job that groups events by key check the same ones with `InvariantChecker`.
"""

from eventlib.model.invariant_checker import InvariantChecker
from eventlib.model.invariants import (
    ExternalState,
    ExternalStates,
    Fold,
    Invariant,
    Violation,
    invariant,
    judged_by_events,
)

__all__ = [
    "ExternalState",
    "ExternalStates",
    "Fold",
    "Invariant",
    "InvariantChecker",
    "Violation",
    "invariant",
    "judged_by_events",
]
