"""Steps that stay done although something else fails. Proved from publish lists and two declarations on events.

A *step* is what an effect answers, or awaits (the outside world has acted), what some event `reverses`, and what a handler emits
where it could have emitted a failure instead (that one is a guess: a warning; and a request of an effect is none, since nothing is
done before the effect answers). A *risk* for a step is a failure that can
come when the step is done (see `risks`). For each step and each of its risks, an event that reverses the step must
follow from the failure, along handlers and effects; a deadline is no way there, since it would be long in coming.

What this cannot see: whether a handler emits in *every* state what its publish list allows in some.
"""

from collections.abc import Iterable, Mapping

from eventlib.analysis.event_graph import EventGraph
from eventlib.analysis.risks import Risk, risks
from eventlib.model.event import EventType, contract_of
from eventlib.model.finding import Finding

_SHOWN = 3


def findings(flow: EventGraph) -> Iterable[Finding]:
    """Return the steps that nothing undoes after a failure."""
    for step, is_certain in _steps(flow).items():
        found = risks(flow, step) if step in flow.happening else {}
        reversers = flow.reversers.get(step, ())
        if found and not reversers:
            yield _never_undone(flow, step, found, is_certain=is_certain)
            continue
        for failure, risk in found.items():
            if not _is_undone(flow, failure, step):
                yield _not_undone(flow, step, failure, risk)
        late = [failure for failure, risk in found.items() if risk.is_first and not _receives(flow, step, failure)]
        if late and not _is_undone_when_late(flow, step):
            yield _late(flow, step, late[0])


def proved(flow: EventGraph) -> tuple[int, int]:
    """Return how many steps have something that reverses them, and in how many ways a failure can follow one of them."""
    steps = [step for step in flow.reversers if step in flow.happening]
    return len(steps), sum(len(risks(flow, step)) for step in steps)


def _steps(flow: EventGraph) -> dict[EventType, bool]:
    """Return the events that may have to be undone, and whether that is certain."""
    answered = [
        event for r in flow.reactions if r.effect is not None for event in r.effect.ask.answers + r.effect.awaits
    ]
    found = dict.fromkeys([*flow.reversers, *filter(flow.is_forward, answered)], True)
    for reaction in flow.reactions:
        decides = reaction.kind == "handler" and reaction.cause is not None and reaction.cause not in flow.compensating
        if decides and reaction.cause not in flow.failures and flow.failures & {*reaction.emits}:
            for event in filter(flow.is_forward, reaction.emits):
                if not any(asked.effect is not None for asked in flow.to(event)):
                    found.setdefault(event, False)
    return found


def _is_undone(flow: EventGraph, failure: EventType, step: EventType) -> bool:
    after = flow.walk(failure, past=lambda event: event is not step)
    return any(reverser in after for reverser in flow.reversers[step])


def _is_undone_when_late(flow: EventGraph, step: EventType) -> bool:
    after = flow.walk(step, past=lambda event: event not in flow.failures)
    return any(reverser in after for reverser in flow.reversers[step])


def _receives(flow: EventGraph, step: EventType, failure: EventType) -> bool:
    """Tell whether every decider that emits the step receives the failure under its key, and so need not emit it any more."""
    after = flow.walk(failure)
    return all(
        reaction.kind != "effect"
        and reaction.decider.key == contract_of(step).key
        and any(event in after for event in reaction.decider.handlers)
        for reaction in flow.emitting(step)
    )


def _never_undone(flow: EventGraph, step: EventType, found: Mapping[EventType, Risk], *, is_certain: bool) -> Finding:
    shown = ", ".join(failure.__name__ for failure in [*found][:_SHOWN])
    more = f" and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
    return Finding(
        "error" if is_certain else "warning",
        "step-without-compensation",
        step.__name__,
        flow.emitting(step)[0].where if flow.emitting(step) else step.__name__,
        f"nothing reverses {step.__name__}, and {shown}{more} can come after it ({next(iter(found.values())).scenario})",
        "the step stays done although the saga has failed",
        f"declare reverses={step.__name__} on the event that undoes it, and emit that event after the failure",
    )


def _not_undone(flow: EventGraph, step: EventType, failure: EventType, risk: Risk) -> Finding:
    reversers = " or ".join(event.__name__ for event in flow.reversers[step])
    asks = " or ".join(dict.fromkeys(reaction.where for r in flow.reversers[step] for reaction in flow.emitting(r)))
    return Finding(
        "error" if risk.is_certain else "warning",
        "compensation-out-of-reach",
        f"{step.__name__}, {failure.__name__}",
        flow.emitting(failure)[0].where if flow.emitting(failure) else contract_of(failure).type,
        f"{step.__name__} may be done when {failure.__name__} comes ({risk.scenario}), and {reversers} never follows",
        "the step stays done although the saga has failed",
        f"let {failure.__name__} lead to {reversers}"
        + (f", which {asks} can emit" if asks else ", which no service emits"),
    )


def _late(flow: EventGraph, step: EventType, failure: EventType) -> Finding:
    reversers = " or ".join(event.__name__ for event in flow.reversers[step])
    return Finding(
        "error",
        "late-step",
        step.__name__,
        flow.emitting(step)[0].where if flow.emitting(step) else step.__name__,
        f"{step.__name__} may still come after {failure.__name__}, and {reversers} never follows from it then",
        "the step stays done although the saga has failed",
        f"let a decider that remembers {failure.__name__} answer {step.__name__} with what leads to {reversers}",
    )
