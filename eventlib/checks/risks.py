"""Which failures can come when a step is done: the first ones on each way, since later ones find it being undone.

- *Later*: the failure follows from the step.
- *Unknown*: the step's own effect may end without knowing whether it was done.
- *Refused*: the effect that should undo it can answer a failure.
- *Interruption*: a request from outside, or a deadline, of a decider that the story comes through under the step's key.
  What can lead to the step itself is none; and where one decider, under that key, says both the step and the failure,
  it knows of the other.
- *Beside*: two deciders answer the same event, and one of them may fail when the other has done its step; until a
  decider hears of both. Also two events that one handler may say in one breath, if it says both (a warning).
- *Among many*: a handler asks under another key, one event for each of several parts, and one part may be refused.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import permutations
from typing import Any

from eventlib.checks.parts import is_for_each_part
from eventlib.decider import Decider
from eventlib.event import EventType, contract_of
from eventlib.flow import Flow, Reaction, Walk


@dataclass(frozen=True, slots=True)
class Risk:
    """How a failure can come when a step is done, as a sentence's end; `is_first`: it can also come before the step."""

    story: str
    is_certain: bool = True
    is_first: bool = False


def risks(flow: Flow, step: EventType) -> dict[EventType, Risk]:
    """Return the failures that can come when a step is done, each with one story of how."""
    found: dict[EventType, Risk] = {}
    for failure, risk in _all(flow, step):
        known = found.get(failure, risk)
        sure = known if known.is_certain else risk
        found[failure] = replace(sure, is_first=known.is_first or risk.is_first)
    return found


def _all(flow: Flow, step: EventType) -> Iterator[tuple[EventType, Risk]]:
    later = flow.walk(step, past=lambda event: event is step or flow.is_forward(event))
    yield from _failures(flow, later, step)
    yield from _own(flow, step)
    yield from _interruptions(flow, step, later)
    yield from _beside(flow, step)
    yield from _among_many(flow, step)


def _own(flow: Flow, step: EventType) -> Iterator[tuple[EventType, Risk]]:
    for reaction in flow.reactions:
        if reaction.effect is None:
            continue
        if step in reaction.effect.ask.answers:
            for unknown in reaction.effect.uncertain:
                if unknown in flow.failures:
                    yield unknown, Risk(f"{reaction.name} may have done it, and not know")
        reversing = {*flow.reversers.get(step, ())}
        if reversing & {*reaction.says} and step not in reaction.effect.ask.answers:
            for refused in flow.failures & {*reaction.says} - reversing:
                yield refused, Risk(f"{reaction.name} should undo it, and may fail")


def _interruptions(flow: Flow, step: EventType, later: Walk) -> Iterator[tuple[EventType, Risk]]:
    key = contract_of(step).key
    heard = [r.decider for r in flow.reactions if r.cause in later or r in flow.saying(step)]
    for reaction in flow.reactions:
        comes_in = reaction.kind == "deadline" or reaction.cause in flow.entries
        if not comes_in or reaction.decider not in heard or reaction.decider.key != key:
            continue
        walk = flow.walk(*reaction.says, past=flow.is_forward)
        if step in walk:
            continue
        begins = f"{reaction.decider.name}.{reaction.name}" if reaction.cause is None else reaction.cause.__name__
        for failure, risk in _failures(flow, walk, step, begins):
            if not _knows_both(flow, step, failure):
                yield failure, Risk(f"at any time: {risk.story}", is_first=True)


def _beside(flow: Flow, step: EventType) -> Iterator[tuple[EventType, Risk]]:
    before = flow.leading_to(step)
    for cause in filter(before.__contains__, flow.choreography.events):
        for one, other in permutations(flow.to(cause), 2):
            if one.decider is not other.decider and before & {*one.says}:
                yield from _parallel(flow, step, one.says, other.says, Risk(cause.__name__))
    for reaction in flow.reactions:
        if reaction.kind != "effect":
            for first, second in permutations(filter(flow.is_forward, reaction.says), 2):
                how = Risk(f"if {reaction.decider.name}.{reaction.name} says both", is_certain=False)
                if first in before:
                    yield from _parallel(flow, step, (first,), (second,), how)


def _parallel(
    flow: Flow, step: EventType, one: Iterable[EventType], other: Iterable[EventType], how: Risk
) -> Iterator[tuple[EventType, Risk]]:
    """Return the failures on one branch for a step on the other; a decider that hears of both ends both branches."""
    joins = _hearing(flow, one) & _hearing(flow, other)

    def goes_on(reaction: Reaction) -> bool:
        return reaction.kind == "effect" or reaction.decider not in joins

    if step not in flow.walk(*one, past=flow.is_forward, by=goes_on):
        return
    for failure, risk in _failures(flow, flow.walk(*other, past=flow.is_forward, by=goes_on), step, how.story):
        if not _knows_both(flow, step, failure):
            yield failure, Risk(f"beside it: {risk.story}", how.is_certain, is_first=True)


def _among_many(flow: Flow, step: EventType) -> Iterator[tuple[EventType, Risk]]:
    for reaction in flow.reactions:
        for asked in (event for event in reaction.says if is_for_each_part(reaction, event)):
            walk = flow.walk(asked, past=flow.is_forward, by=lambda r, own=reaction.decider: r.decider is not own)  # type: ignore[misc]  # bound now
            if step in walk:
                for failure, risk in _failures(flow, walk, step):
                    yield failure, Risk(f"for another part: {risk.story}", is_first=True)


def _failures(flow: Flow, walk: Walk, step: EventType, begins: str | None = None) -> Iterator[tuple[EventType, Risk]]:
    reversing = flow.reversers.get(step, ())
    for event in walk:
        if event in flow.failures and event not in reversing and event is not step:
            names = [each.__name__ for each in walk.path(event)]
            yield event, Risk(" → ".join(names if begins is None else [begins, *names]))


def _hearing(flow: Flow, said: Iterable[EventType]) -> set[Decider[Any]]:
    return {r.decider for event in flow.walk(*said) for r in flow.to(event) if r.kind == "handler"}


def _knows_both(flow: Flow, step: EventType, failure: EventType) -> bool:
    """Tell whether whoever says the failure has said the step, for the same key, and so can decide between them."""
    key = contract_of(step).key
    if contract_of(failure).key != key:
        return False
    deciders = {reaction.decider for reaction in flow.saying(step)}
    return all(r.decider in deciders and r.decider.key == key for r in flow.saying(failure))
