"""Checks: a choreography's faults, as far as types show them. Each module states what it proves and what it guesses."""

from collections.abc import Iterable
from dataclasses import replace

from eventlib.analysis import (
    compensation,
    connectors,
    cycles,
    dead_events,
    declarations,
    effects,
    personal,
    purity,
    waits,
)
from eventlib.analysis.connectors import Connector
from eventlib.analysis.event_graph import EventGraph
from eventlib.model.choreography import Choreography
from eventlib.model.finding import Accepted, Finding

__all__ = ["check"]

_CHECKS = (dead_events, declarations, effects, compensation, waits, cycles, purity, personal)


def check(choreography: Choreography, more: Iterable[Finding] = (), taking: Iterable[Connector] = ()) -> list[Finding]:
    """Return the faults of a choreography and of what is `taking` its events, and `more` of them, errors first.

    What the choreography accepts is among them, with its reason. What cannot even be wired (topics that are not
    co-partitioned, a key that is no field) is not: it is refused at import.
    """
    flow = EventGraph(choreography)
    found = [*more, *(finding for each in _CHECKS for finding in each.findings(flow))]
    found += connectors.findings(flow, taking)
    found += _accepted_for_nothing(found, choreography.accepts)
    reasons = {(accepted.rule, accepted.subject): accepted.reason for accepted in choreography.accepts}
    judged = [replace(each, accepted=reasons.get((each.rule, each.subject))) for each in found]
    return sorted(judged, key=lambda each: (each.accepted is not None, each.severity != "error"))


def _accepted_for_nothing(found: Iterable[Finding], accepts: Iterable[Accepted]) -> Iterable[Finding]:
    there = {(finding.rule, finding.subject) for finding in found}
    for accepted in accepts:
        if (accepted.rule, accepted.subject) not in there:
            yield Finding(
                "warning",
                "accepted-for-nothing",
                f"{accepted.rule}: {accepted.subject}",
                "the choreography",
                f"{accepted.rule} of {accepted.subject} is accepted, but is not found",
                "it would hide the next finding of that name",
                "take it out of `accepts`, or mend its rule or subject",
            )
