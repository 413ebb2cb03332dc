"""What `eventlib check` finds of functions that are not pure, and of fields that cannot be written."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Never

import pytest

from eventlib import Choreography, Decider, Event, Service
from eventlib.analysis.checks import check
from eventlib.analysis.purity import changes_in_place
from eventlib.contracts.writable import unwritable
from eventlib.errors import ContractError, WiringError
from eventlib.testing import given


class Counted(Event, topic="counted", key="name", request=True):
    name: str
    parts: dict[str, int]


@dataclass(frozen=True)
class Count:
    parts: dict[str, int] = field(default_factory=dict)
    names: list[str] = field(default_factory=list)

    def update(self, other: "Count") -> "Count":
        return replace(self, parts={**self.parts, **other.parts})


def puts_an_item(count: Count, counted: Counted) -> Count:
    count.parts[counted.name] = 1
    return count


def appends(count: Count, counted: Counted) -> Count:
    if counted.parts:
        count.names.append(counted.name)
    return count


def adds_to_it(count: Count, counted: Counted) -> Count:
    count.parts[counted.name] += 1
    return count


def deletes(count: Count, counted: Counted) -> Count:
    del count.parts[counted.name]
    return count


def under_another_name(count: Count, counted: Counted) -> Count:
    names = count.names
    names.append(counted.name)
    return count


def empties_the_event(count: Count, counted: Counted) -> Count:
    counted.parts.clear()
    return count


IMPURE = [puts_an_item, appends, adds_to_it, deletes, under_another_name, empties_the_event]


@pytest.mark.parametrize("function", IMPURE, ids=lambda each: each.__name__)
def test_what_is_changed_in_place(function: Callable[..., Any]) -> None:
    ((line, what),) = changes_in_place(function)
    assert Path(__file__).read_text(encoding="utf-8").splitlines()[line - 1].strip() == what


def a_copy(count: Count, counted: Counted) -> Count:
    names = list(count.names)
    names.append(counted.name)
    parts = dict(count.parts)
    parts[counted.name] = 1
    return replace(count, names=names, parts=parts)


def a_name_that_is_given_again(count: Count, counted: Counted) -> Count:
    names = count.names
    names = [*names, counted.name]
    names.sort()
    return replace(count, names=names)


def a_method_that_returns_another(count: Count, _counted: Counted) -> Count:
    return count.update(Count())


@pytest.mark.parametrize(
    "function", [a_copy, a_name_that_is_given_again, a_method_that_returns_another], ids=lambda each: each.__name__
)
def test_what_is_not(function: Callable[..., Any]) -> None:
    assert [*changes_in_place(function)] == []


def counting(evolve: Callable[[Count, Any], Count]) -> Choreography:
    counts = Decider("count", state=Count, key="name")
    counts.evolve(evolve)
    counts.follows(Counted)
    return Choreography("counting", [Service("counting", deciders=[counts])])


def test_check_names_it() -> None:
    (finding,) = check(counting(appends))
    assert (finding.severity, finding.rule) == ("error", "changed-in-place")
    assert finding.subject == "count.appends: count.names.append(counted.name)"
    assert check(counting(a_copy)) == []


def test_a_field_that_cannot_be_written_is_named() -> None:
    class Loose(Event, topic="counted", key="name", request=True):
        name: str
        value: Any

    counts = Decider("count", state=Count, key="name")
    counts.follows(Loose)
    choreography = Choreography("loose", [Service("loose", deciders=[counts])])
    (finding,) = check(choreography, unwritable(choreography))
    assert (finding.severity, finding.rule, finding.subject) == ("error", "no-schema", "Loose")
    assert "Loose.value: Any has no Avro type" in finding.what


async def waits(_count: Count, _counted: Counted) -> list[Never]:
    return []


def yields(_count: Count, _counted: Counted) -> Any:
    yield


@pytest.mark.parametrize(("function", "what"), [(waits, "waits is async"), (yields, "yields yields")])
def test_a_function_that_waits_or_yields_is_refused(function: Callable[..., Any], what: str) -> None:
    counts = Decider("count", state=Count, key="name")
    for register in (counts.on, counts.evolve, counts.deadline, counts.forget):
        with pytest.raises(WiringError, match=what):
            register(function)


class Told(Event, topic="told", key="name", final=True):
    name: str


def test_one_event_instead_of_a_list() -> None:
    counts = Decider("count", state=Count, key="name")

    @counts.on
    def tell(_count: Count, counted: Counted) -> list[Told]:
        return Told(name=counted.name)  # type: ignore[return-value]  # the mistake

    with pytest.raises(ContractError, match=r"count\.tell returned one Told: return a list"):
        given(counts).when(Counted(name="a", parts={})).then()
