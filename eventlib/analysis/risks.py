"""Which failures are possible when a step is done, and whether a handler asks once or for several parts."""

import dataclasses
import typing
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import permutations
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin

from pydantic import BaseModel

from eventlib.analysis.event_graph import EventGraph, Reachability, Transition
from eventlib.model.decider import Decider
from eventlib.model.event import EventType, contract_of


def is_for_each_part(reaction: Transition, emitted: EventType) -> bool:
    """Tell whether an event under another key than its decider's is emitted for each of several parts.

    That key's field then stands within a collection of the input or of the state, and nowhere outside of one.
    """
    key = contract_of(emitted).key
    if key is None or reaction.decider.key in {None, key}:
        return False
    known = [reaction.decider.state, *([] if reaction.cause is None else [reaction.cause])]
    places = [place for each in known for place in _places(each, key)]
    return bool(places) and all(places)


def _places(of: Any, name: str, within: tuple[Any, ...] = ()) -> Iterator[bool]:
    """Yield for each field of this name whether it stands within a collection."""
    for field, annotation in _fields(of).items():
        if field == name:
            yield False
        for part, is_many in _parts(annotation):
            if part not in within:
                for deeper in _places(part, name, (*within, part)):
                    yield is_many or deeper


def _fields(of: Any) -> dict[str, Any]:
    if isinstance(of, type) and issubclass(of, BaseModel):
        return {name: field.annotation for name, field in of.model_fields.items()}
    if dataclasses.is_dataclass(of):
        try:
            return typing.get_type_hints(of)
        except NameError:  # names of a function's scope: nothing is known of it
            return {}
    return {}


def _parts(annotation: Any, *, many: bool = False) -> Iterator[tuple[Any, bool]]:
    """Yield the classes in an annotation, and whether there may be several of each."""
    origin = get_origin(annotation)
    if origin is None:
        if isinstance(annotation, type):
            yield annotation, many
        return
    several = many or origin not in {Annotated, Union, UnionType}
    inner = get_args(annotation)
    for each in inner[:1] if origin is Annotated else inner:
        yield from _parts(each, many=several)


@dataclass(frozen=True, slots=True)
class Risk:
    """How a failure can come when a step is done, as a sentence's end; `is_first`: it can also come before the step."""

    scenario: str
    is_certain: bool = True
    is_first: bool = False


def risks(flow: EventGraph, step: EventType) -> dict[EventType, Risk]:
    """Return the failures that can come when a step is done, each with one scenario of how."""
    found: dict[EventType, Risk] = {}
    for failure, risk in _all(flow, step):
        known = found.get(failure, risk)
        sure = known if known.is_certain else risk
        found[failure] = replace(sure, is_first=known.is_first or risk.is_first)
    return found


def _all(flow: EventGraph, step: EventType) -> Iterator[tuple[EventType, Risk]]:
    later = flow.walk(step, past=lambda event: event is step or flow.is_forward(event))
    yield from _failures(flow, later, step)
    yield from _own(flow, step)
    yield from _interruptions(flow, step, later)
    yield from _beside(flow, step)
    yield from _among_many(flow, step)


def _own(flow: EventGraph, step: EventType) -> Iterator[tuple[EventType, Risk]]:
    for reaction in flow.reactions:
        if reaction.effect is None:
            continue
        if step in reaction.effect.ask.answers:
            for unknown in reaction.effect.uncertain:
                if unknown in flow.failures:
                    yield unknown, Risk(f"{reaction.name} may have done it, and not know")
        reversing = {*flow.reversers.get(step, ())}
        if reversing & {*reaction.emits} and step not in reaction.effect.ask.answers:
            for refused in flow.failures & {*reaction.emits} - reversing:
                yield refused, Risk(f"{reaction.name} should undo it, and may fail")


def _interruptions(flow: EventGraph, step: EventType, later: Reachability) -> Iterator[tuple[EventType, Risk]]:
    key = contract_of(step).key
    receivers = [r.decider for r in flow.reactions if r.cause in later or r in flow.emitting(step)]
    for reaction in flow.reactions:
        comes_in = reaction.kind == "deadline" or reaction.cause in flow.entries
        if not comes_in or reaction.decider not in receivers or reaction.decider.key != key:
            continue
        walk = flow.walk(*reaction.emits, past=flow.is_forward)
        if step in walk:
            continue
        begins = f"{reaction.decider.name}.{reaction.name}" if reaction.cause is None else reaction.cause.__name__
        for failure, risk in _failures(flow, walk, step, begins):
            if not _knows_both(flow, step, failure):
                yield failure, Risk(f"at any time: {risk.scenario}", is_first=True)


def _beside(flow: EventGraph, step: EventType) -> Iterator[tuple[EventType, Risk]]:
    before = flow.leading_to(step)
    for cause in filter(before.__contains__, flow.choreography.events):
        for one, other in permutations(flow.to(cause), 2):
            if one.decider is not other.decider and before & {*one.emits}:
                yield from _parallel(flow, step, one.emits, other.emits, Risk(cause.__name__))
    for reaction in flow.reactions:
        if reaction.kind != "effect":
            for first, second in permutations(filter(flow.is_forward, reaction.emits), 2):
                how = Risk(f"if {reaction.decider.name}.{reaction.name} emits both", is_certain=False)
                if first in before:
                    yield from _parallel(flow, step, (first,), (second,), how)


def _parallel(
    flow: EventGraph, step: EventType, one: Iterable[EventType], other: Iterable[EventType], how: Risk
) -> Iterator[tuple[EventType, Risk]]:
    """Return the failures on one branch for a step on the other; a decider that receives both ends both branches."""
    joins = _receivers(flow, one) & _receivers(flow, other)

    def goes_on(reaction: Transition) -> bool:
        return reaction.kind == "effect" or reaction.decider not in joins

    if step not in flow.walk(*one, past=flow.is_forward, by=goes_on):
        return
    for failure, risk in _failures(flow, flow.walk(*other, past=flow.is_forward, by=goes_on), step, how.scenario):
        if not _knows_both(flow, step, failure):
            yield failure, Risk(f"beside it: {risk.scenario}", how.is_certain, is_first=True)


def _among_many(flow: EventGraph, step: EventType) -> Iterator[tuple[EventType, Risk]]:
    for reaction in flow.reactions:
        for asked in (event for event in reaction.emits if is_for_each_part(reaction, event)):
            walk = flow.walk(asked, past=flow.is_forward, by=lambda r, own=reaction.decider: r.decider is not own)  # type: ignore[misc]  # bound now
            if step in walk:
                for failure, risk in _failures(flow, walk, step):
                    yield failure, Risk(f"for another part: {risk.scenario}", is_first=True)


def _failures(
    flow: EventGraph, walk: Reachability, step: EventType, begins: str | None = None
) -> Iterator[tuple[EventType, Risk]]:
    reversing = flow.reversers.get(step, ())
    for event in walk:
        if event in flow.failures and event not in reversing and event is not step:
            names = [each.__name__ for each in walk.path(event)]
            yield event, Risk(" → ".join(names if begins is None else [begins, *names]))


def _receivers(flow: EventGraph, emitted: Iterable[EventType]) -> set[Decider[Any]]:
    return {r.decider for event in flow.walk(*emitted) for r in flow.to(event) if r.kind == "handler"}


def _knows_both(flow: EventGraph, step: EventType, failure: EventType) -> bool:
    """Tell whether who emits the failure has emitted the step, for the same key, and so can decide between them."""
    key = contract_of(step).key
    if contract_of(failure).key != key:
        return False
    deciders = {reaction.decider for reaction in flow.emitting(step)}
    return all(r.decider in deciders and r.decider.key == key for r in flow.emitting(failure))
