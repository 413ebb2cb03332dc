"""Waits that no deadline ends. A warning, since types show less here than elsewhere.

A decider *may wait* when it handles an event that follows, through others, from another event that it handles: between
the two it knows of something unfinished. Others are another decider, and an effect that never gives up; a decider's
own effects with an end are not. The wait is *covered* when the decider has a deadline that emits something, or handles
what follows from another decider's deadline that is not the end of an effect's own wait: whether these two belong to the same saga, and whether the deadline is
there in every state that waits, types do not show. Nor do they show a wait for people: what comes from outside
may come or not.
"""

from collections.abc import Iterable
from typing import Any

from eventlib.analysis.event_graph import EventGraph, Transition
from eventlib.model.decider import Decider
from eventlib.model.event import EventType
from eventlib.model.finding import Finding


def findings(flow: EventGraph) -> Iterable[Finding]:
    """Return the deciders that may wait without end."""
    for service in flow.choreography.services:
        for decider in service.deciders:
            wait = None if _is_covered(flow, decider) else _wait(flow, decider)
            if wait is not None:
                yield _finding(f"{service.name}/{decider.name}", decider, *wait)


def _wait(flow: EventGraph, decider: Decider[Any]) -> tuple[EventType, EventType] | None:
    """Return two events that the decider handles, the second of which follows from the first through others."""

    def is_own(reaction: Transition) -> bool:
        if reaction.decider is not decider:
            return False
        return reaction.effect is None or reaction.effect.ask.retry.attempts is not None

    for first in decider.handlers:
        own = flow.walk(first, by=is_own)
        elsewhere = [emitted for event in own for r in flow.to(event) if not is_own(r) for emitted in r.emits]
        later = flow.walk(*elsewhere)
        for second in decider.handlers:
            if second in later and second is not first:
                return first, second
    return None


def _is_covered(flow: EventGraph, decider: Decider[Any]) -> bool:
    deadlines = [reaction for reaction in flow.reactions if reaction.kind == "deadline" and reaction.emits]
    if any(deadline.decider is decider for deadline in deadlines):
        return True
    later = flow.walk(*(emitted for deadline in deadlines if not _is_of_effect(deadline) for emitted in deadline.emits))
    return any(event in later for event in decider.handlers)


def _is_of_effect(deadline: Transition) -> bool:
    """Tell whether a deadline is there only while an effect awaits what comes later: it ends no other wait."""
    return any(effect.within == deadline.name for effect in deadline.decider.effects.values())


def _finding(where: str, decider: Decider[Any], first: EventType, second: EventType) -> Finding:
    return Finding(
        "warning",
        "wait-without-deadline",
        decider.name,
        where,
        f"after {first.__name__}, {decider.name} may wait for {second.__name__}, and no deadline ends that",
        "if it never comes, the saga stands still, without notice",
        f"give {decider.name} a deadline, or let it handle what another's deadline leads to",
    )
