"""The outcome of awaited answers, for the observer of a task: taken from the key's metadata, not from a clock."""

from typing import NamedTuple

from eventlib.model.event import Event
from eventlib.model.service import Service
from eventlib.runtime.keyed_state import KeyedState

CAME, LATE, TWICE, NEVER = OUTCOMES = ("came", "late", "twice", "never")
OVER = "over"
"""The effect's own answer was the whole answer: nothing is awaited."""


class Await(NamedTuple):
    """The role of one event class for a decider with an effect that awaits: the awaited event, or the effect's own answer."""

    within: str
    is_report: bool


def awaits_of(service: Service) -> dict[tuple[str, type[Event]], Await]:
    """Return what a service's deciders handle for an effect that awaits, by decider and class of event."""
    found = dict[tuple[str, type[Event]], Await]()
    for decider in service.deciders:
        for effect in decider.effects.values():
            for event in effect.leads_to if effect.awaits else ():
                found[decider.name, event] = Await(effect.within or "", event in effect.awaits)
    return found


def deadlines_of(service: Service) -> set[tuple[str, str]]:
    """Return the deadlines that end such a wait, by decider and name."""
    return {(d.name, e.within) for d in service.deciders for e in d.effects.values() if e.awaits and e.within}


def outcome_of(expected: Await, before: KeyedState, after: KeyedState, *, is_again: bool) -> str:
    """Return what became of an awaited event that was handled: empty for an effect's answer after which it is awaited.

    `before` and `after` are the key's entries; `is_again` tells whether the key had answered it before. Before the
    request's own answer no deadline is there yet: it came, too.
    """
    if not expected.is_report:
        return "" if expected.within in after.due else OVER
    if is_again:
        return TWICE
    if before.state is None or (expected.within in before.memory.passed and expected.within not in before.due):
        return LATE
    is_news = after.sequence != before.sequence or after.state != before.state
    return CAME if is_news else TWICE
