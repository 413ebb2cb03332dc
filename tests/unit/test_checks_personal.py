"""`eventlib check` refuses a decider that an erasure would let decide otherwise."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Annotated, Any

import pytest

from eventlib import Choreography, Decider, Event, Service
from eventlib.analysis.checks import check
from eventlib.model.finding import Finding
from eventlib.personal import Personal
from examples import letters
from tests.apps.people import Card, Text


class Called(Event, topic="calls", key="key", request=True):
    key: str
    person_id: str
    name: Annotated[str, Text]
    other_id: str = ""


class Answered(Event, topic="answers", key="key", final=True):
    key: str
    person_id: str
    name: Annotated[str, Text] = ""
    note: str = ""


class Passed(Event, topic="answers", key="key", final=True):
    key: str
    other_id: str
    name: Annotated[str, Personal(subject="other_id")] = ""


@dataclass(frozen=True)
class Judging(Card):
    @property
    def is_ada(self) -> bool:
        return self.name == "Ada"


def shouted(text: str) -> str:
    return text.upper()


def is_known(call: Called) -> bool:
    return call.name in {"Ada", "Bob"}


def answered(call: Called, name: str = "", note: str = "") -> list[Answered]:
    return [Answered(key=call.key, person_id=call.person_id, name=name, note=note)]


def problems(handler: Callable[..., Any], state: type[Any] = Card) -> list[Finding]:
    decider: Decider[Any] = Decider("caller", state=state, key="key")
    decider.on(handler)
    found = check(Choreography("calls", [Service("calls", deciders=[decider])]))
    return [each for each in found if each.rule == "personal-field-decides"]


@dataclass(frozen=True)
class Plain:
    calls: int = 0


def test_the_letters_are_clean() -> None:
    assert not [each for each in check(letters.app) if each.rule == "personal-field-decides"]


def hands_on(caller: Card, call: Called) -> list[Answered]:
    name = call.name or caller.name
    if not name or caller.name is None:
        return []
    if caller.calls > 3:
        raise ValueError(f"too many calls of {name}")
    return [Answered(key=call.key, person_id=call.person_id, name=name if caller.calls else call.name)]


def matches(_state: Plain, call: Called) -> list[Answered]:
    match call:
        case Called(key=key, person_id=person_id, name=name):
            return [Answered(key=key, person_id=person_id, name=name)]


@pytest.mark.parametrize("handler", [hands_on, matches])
def test_texts_may_be_handed_on(handler: Callable[..., Any]) -> None:
    assert problems(handler, Plain if handler is matches else Card) == []


def compares(_state: Plain, call: Called) -> list[Answered]:
    return [Answered(key=call.key, person_id=call.person_id)] if call.name == "Ada" else []


def measures(_state: Plain, call: Called) -> list[Answered]:
    return [Answered(key=call.key, person_id=call.person_id, note=str(len(call.name)))]


def lets_a_variable_decide(_state: Plain, call: Called) -> list[Answered]:
    who = call.name
    while who != "Ada":
        return []
    return [Answered(key=call.key, person_id=call.person_id)]


def quotes(_state: Plain, call: Called) -> list[Answered]:
    return [Answered(key=call.key, person_id=call.person_id, note=f"Dear {call.name}")]


def publishes(_state: Plain, call: Called) -> list[Answered]:
    return [Answered(key=call.key, person_id=call.person_id, note=call.name)]


def gives_it_to_another_subject(_state: Plain, call: Called) -> list[Passed]:
    return [Passed(key=call.key, other_id=call.other_id, name=call.name)]


def matches_a_value(_state: Plain, call: Called) -> list[Answered]:
    match call:
        case Called(name="Ada"):
            return [Answered(key=call.key, person_id=call.person_id)]
    return []


def guards(_state: Plain, call: Called) -> list[Answered]:
    match call:
        case Called(name=name) if name.startswith("A"):
            return [Answered(key=call.key, person_id=call.person_id)]
    return []


def calls_with_text(_state: Plain, call: Called) -> list[Answered]:
    return [Answered(key=call.key, person_id=call.person_id, name=shouted(call.name))]


def lets_a_function_decide(_state: Plain, call: Called) -> list[Answered]:
    return [Answered(key=call.key, person_id=call.person_id)] if is_known(call) else []


def compares_all(caller: Card, call: Called) -> list[Answered]:
    if caller == Card():
        return []
    return [Answered(key=call.key, person_id=call.person_id)]


def lets_a_property_decide(caller: Judging, call: Called) -> list[Answered]:
    return [Answered(key=call.key, person_id=call.person_id)] if caller.is_ada else []


def dumps(_state: Plain, call: Called) -> list[Answered]:
    return [Answered(key=call.key, person_id=call.person_id, note=str(sorted(call.model_dump())))]


def sorts(_state: Plain, call: Called) -> list[Answered]:
    names = [call.name, "b"]
    return [Answered(key=call.key, person_id=call.person_id, note=str(names))]


@pytest.mark.parametrize(
    "handler",
    [
        compares,
        measures,
        lets_a_variable_decide,
        quotes,
        publishes,
        gives_it_to_another_subject,
        matches_a_value,
        guards,
        calls_with_text,
        lets_a_function_decide,
        compares_all,
        dumps,
        sorts,
    ],
)
def test_what_an_erasure_would_change_is_refused(handler: Callable[..., Any]) -> None:
    found = problems(handler, Card if handler is compares_all else Plain)
    assert found
    assert all(each.severity == "error" for each in found)


def test_a_property_of_the_state_is_followed() -> None:
    (found,) = problems(lets_a_property_decide, Judging)
    assert "is_ada" in found.subject


def test_an_evolve_is_checked() -> None:
    decider: Decider[Any] = Decider("caller", state=Plain, key="key")
    decider.on(matches)

    @decider.evolve
    def evolve(state: Plain, event: Event) -> Plain:
        return replace(state, calls=1) if isinstance(event, Called) and event.name > "M" else state

    found = check(Choreography("calls", [Service("calls", deciders=[decider])]))
    assert ["evolve" in each.subject for each in found if each.rule == "personal-field-decides"] == [True]
