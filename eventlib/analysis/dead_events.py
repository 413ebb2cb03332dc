"""Events that no service handles, and handlers, effects and deadlines that never come to anything. Exact, by the types."""

from collections.abc import Iterable

from eventlib.analysis.event_graph import EventGraph
from eventlib.model.event import EventType, contract_of
from eventlib.model.finding import Finding


def findings(flow: EventGraph) -> Iterable[Finding]:
    """Return what is emitted in vain, and what waits for what never comes."""
    emitted = {event for reaction in flow.reactions for event in reaction.emits}
    for event in _unemitted_events(flow, emitted):
        if any(reaction.kind == "handler" for reaction in flow.to(event)):
            yield _without_source(flow, event)
    for event in flow.choreography.events:
        if event in emitted and not flow.to(event) and not contract_of(event).final:
            yield _without_handler(flow, event)
    yield from _never_begun(flow, emitted)
    yield from _never_requested(flow)
    yield from _without_answer(flow)


def _unemitted_events(flow: EventGraph, emitted: set[EventType]) -> list[EventType]:
    asked = dict.fromkeys(reaction.cause for reaction in flow.reactions if reaction.cause is not None)
    return [event for event in asked if event not in emitted and event not in flow.entries]


def _without_source(flow: EventGraph, event: EventType) -> Finding:
    return Finding(
        "error",
        "handler-without-source",
        event.__name__,
        flow.to(event)[0].where,
        f"{event.__name__} is handled, but no service emits it",
        "what would follow from it never happens",
        "emit it somewhere, drop the handler, or declare request=True if it comes from outside",
    )


def _without_handler(flow: EventGraph, event: EventType) -> Finding:
    return Finding(
        "error",
        "event-without-handler",
        event.__name__,
        flow.emitting(event)[0].where,
        f"{event.__name__} is emitted, but no service handles it",
        "a saga that comes to it ends there without notice",
        "handle it, name it in `follows`, or declare final=True if it ends a saga",
    )


def _never_begun(flow: EventGraph, emitted: set[EventType]) -> Iterable[Finding]:
    """Look for events that are emitted, but only in answer to one another: nothing from outside begins it."""
    known = flow.walk(*_unemitted_events(flow, emitted))  # what these would bring is found already, by its beginning
    for event in flow.choreography.events:
        if event in emitted and event not in flow.happening and event not in known:
            yield Finding(
                "error",
                "event-out-of-reach",
                event.__name__,
                flow.emitting(event)[0].where,
                f"{event.__name__} follows only from events that follow from it",
                "nothing from outside begins that ring, so none of it ever happens",
                "handle what begins it: a request from outside, or an event of another service",
            )


def _never_requested(flow: EventGraph) -> Iterable[Finding]:
    for effect in (reaction for reaction in flow.reactions if reaction.kind == "effect"):
        asked = [r for r in flow.reactions if r.decider is effect.decider and r.kind != "effect"]
        if effect.cause is not None and not any(effect.cause in reaction.emits for reaction in asked):
            request = effect.cause.__name__
            yield Finding(
                "error",
                "effect-never-requested",
                request,
                effect.where,
                f"{effect.name} runs when {effect.decider.name} emits {request}, and none of its handlers does",
                "the outside world is never asked",
                f"emit {request} in a handler of {effect.decider.name}, or drop the effect",
            )


def _without_answer(flow: EventGraph) -> Iterable[Finding]:
    for service in flow.choreography.services:
        for decider in service.deciders:
            for deadline in decider.deadlines.values():
                if deadline.handler is None:
                    yield Finding(
                        "error",
                        "deadline-without-handler",
                        f"{decider.name}.{deadline.name}",
                        f"{service.name}/{decider.name}.{deadline.name}",
                        f"nothing happens when {deadline.name} has passed",
                        "what it should end goes on waiting",
                        f"write `@{deadline.name}.passed` on a handler",
                    )
