"""Effects that end without an answer or await one without an end, hide the failure, or evade a port's limit. Exact."""

from collections.abc import Iterable

from eventlib.analysis.event_graph import EventGraph, Transition
from eventlib.model.effect import Effect
from eventlib.model.event import contract_of
from eventlib.model.finding import Finding


def findings(flow: EventGraph) -> Iterable[Finding]:
    """Return the effects that leave a saga without an answer, or the checks without a meaning."""
    for reaction in flow.reactions:
        if reaction.effect is not None and reaction.effect.gives_up:
            yield _gives_up(flow, reaction, reaction.effect)
        if reaction.effect is not None and _is_undeclared(reaction.effect):
            yield _undeclared(reaction, reaction.effect)
        if reaction.effect is not None and reaction.effect.awaits:
            yield from _unfinished(reaction, reaction.effect)
    yield from _unlimited(flow)


def _gives_up(flow: EventGraph, reaction: Transition, effect: Effect) -> Finding:
    undoes = any(event in flow.compensating for event in effect.emits)
    return Finding(
        "error" if undoes else "warning",
        "effect-gives-up",
        effect.request.__name__,
        reaction.where,
        f"{reaction.name} gives up after {effect.ask.retry.attempts} attempts, and emits nothing then",
        "what is to be undone stays as it is" if undoes else "the saga stands still until a person retries it",
        "a compensation does not give up: retry=FOREVER"
        if undoes
        else "emit what follows with otherwise=, or never give up: retry=FOREVER",
    )


def _unlimited(flow: EventGraph) -> Iterable[Finding]:
    """Yield the services that ask a port without a limit, which another service limits."""
    services = flow.choreography.services
    for port in sorted({name for service in services for name in service.limits}):
        limiting = ", ".join(service.name for service in services if port in service.limits)
        for service in services:
            if port in service.ports and port not in service.limits:
                yield Finding(
                    "warning",
                    "port-partly-limited",
                    f"{service.name}: {port}",
                    service.name,
                    f"{service.name} asks {port} without a limit, which {limiting} limits",
                    "so the port gets more than the limit says",
                    f"give {service.name} its part: limits={{{port!r}: Limit(...)}}",
                )


def _is_undeclared(effect: Effect) -> bool:
    answers = effect.ask.answers
    return len(answers) > 1 and all(contract_of(answer).failure is None for answer in answers)


def _undeclared(reaction: Transition, effect: Effect) -> Finding:
    answers = " or ".join(answer.__name__ for answer in effect.ask.answers)
    return Finding(
        "warning",
        "failure-undeclared",
        effect.request.__name__,
        reaction.where,
        f"{reaction.name} answers {answers}, and none of them declares whether it is a failure",
        "without that, what has to be undone is unknown",
        "declare failure=True on the event class that is one (failure=False, if none is)",
    )


def _unfinished(reaction: Transition, effect: Effect) -> Iterable[Finding]:
    """Look for what is awaited without an end, or is awaited and then not handled."""
    awaited = " or ".join(each.__name__ for each in effect.awaits)
    if effect.within is None:
        yield Finding(
            "error",
            "awaited-without-deadline",
            effect.request.__name__,
            reaction.where,
            f"{reaction.name} awaits {awaited}, and no deadline ends that",
            "a callback that is lost leaves the saga where it is, without notice",
            f"give the effect within=, a deadline of {reaction.decider.name}, whose `passed` handler goes on without it",
        )
    for event in effect.awaits:
        if event not in reaction.decider.handlers:
            yield Finding(
                "error",
                "awaited-without-handler",
                event.__name__,
                reaction.where,
                f"{reaction.name} awaits {event.__name__}, and {reaction.decider.name} does not handle it",
                "the decider that has asked never learns what came of it",
                f"handle it in {reaction.decider.name}, or do not await it",
            )
