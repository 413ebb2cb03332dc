"""What `eventlib check` finds of functions that are not pure, and of fields that cannot be written."""

import os
import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Never
from uuid import NAMESPACE_URL, uuid4, uuid5

import pytest

from eventlib import Choreography, Decider, Event, Service
from eventlib.analysis.checks import check
from eventlib.analysis.purity import changes_in_place, faults
from eventlib.contracts.writable import unwritable
from eventlib.errors import ContractError, WiringError
from eventlib.testing import given


class Counted(Event, topic="counted", key="name", request=True):
    name: str
    parts: dict[str, int]


class Doubled(Event, topic="doubled", key="name", final=True):
    name: str


class Asked(Event, topic="counted", key="name", request=True):
    name: str


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


def deciding(evolve: Callable[[Count, Any], Count | None] | None, *follows: type[Event]) -> Decider[Count]:
    counts = Decider("count", state=Count, key="name")
    if evolve is not None:
        counts.evolve(evolve)
    counts.follows(*follows)
    return counts


def counting(counts: Decider[Count]) -> Choreography:
    return Choreography("counting", [Service("counting", deciders=[counts])])


def test_check_names_it() -> None:
    (finding,) = check(counting(deciding(appends, Counted)))
    assert (finding.severity, finding.rule) == ("error", "changed-in-place")
    assert finding.subject == "count.appends: count.names.append(counted.name)"
    assert check(counting(deciding(a_copy, Counted))) == []


def test_a_field_that_cannot_be_written_is_named() -> None:
    class Loose(Event, topic="counted", key="name", request=True):
        name: str
        value: Any

    choreography = counting(deciding(a_copy, Loose))
    (finding,) = check(choreography, unwritable(choreography))
    assert (finding.severity, finding.rule, finding.subject) == ("error", "no-schema", "Loose")
    assert "Loose.value: Any has no Avro type" in finding.what


# --- paths that end without a return


def forgets_to_return(count: Count, event: Event) -> Count:  # type: ignore[return]  # it is the fault
    match event:
        case Counted(name="x"):
            return count
        case Doubled():
            return count


def returns_none(count: Count, event: Event) -> Count:
    if isinstance(event, Counted):
        return count
    return None  # type: ignore[return-value]  # it is the fault


def breaks_out(count: Count, event: Event) -> Count:  # type: ignore[return]  # it is the fault
    while True:
        if isinstance(event, Counted):
            break
        return count


def takes_all(count: Count, event: Event) -> Count:
    match event:
        case Counted(name=_) | Doubled():
            return count
        case _:
            raise ValueError(event)


def takes_each(count: Count, event: Counted | Doubled) -> Count:
    match event:
        case Counted(name=name):
            return replace(count, names=[name])
        case Doubled() as doubled:
            return replace(count, names=[doubled.name])


def raises_or_returns(count: Count, event: Event) -> Count:
    try:
        if isinstance(event, Counted):
            return count
        raise ValueError(event)
    finally:
        del event


def forgets(_count: Count, event: Event) -> Count | None:
    if isinstance(event, Counted):
        return None
    return None


def forgets_as_text(_count: Count, _event: Event) -> "Count | None":
    return None


def with_evolve(evolve: Callable[[Count, Any], Count | None]) -> Decider[Count]:
    return deciding(evolve, Counted, Doubled)


def test_a_path_without_a_return_is_found_with_file_and_line() -> None:
    here = Path(__file__).resolve().relative_to(Path.cwd())
    for function, last in ((forgets_to_return, 0), (returns_none, 3), (breaks_out, 0)):
        (fault,) = faults(with_evolve(function))
        assert (fault.rule, fault.subject) == ("missing-return", f"count.{function.__name__}")
        assert fault.where == f"{here}:{function.__code__.co_firstlineno + last}"
        with pytest.raises(WiringError, match="can end without a value"):
            given(with_evolve(function))


def test_a_handler_of_a_list_that_returns_nothing_is_found() -> None:
    counts = deciding(takes_all, Doubled)

    @counts.on
    def answer(_count: Count, asked: Asked) -> list[Doubled]:
        if asked.name:
            return [Doubled(name=asked.name)]
        return None  # type: ignore[return-value]  # it is the fault

    @counts.on
    def says_so(_count: Count, _counted: Counted) -> None:
        pass

    (finding,) = (each for each in check(counting(counts)) if each.rule == "missing-return")
    assert (finding.severity, finding.subject) == ("error", "count.answer")


def test_a_state_with_fields_that_nothing_changes_is_found() -> None:
    (finding,) = check(counting(deciding(None, Counted)))
    assert (finding.severity, finding.rule, finding.subject) == ("warning", "state-without-evolve", "count")


# --- what is not the same each time


def reads_the_clock(count: Count, _event: Event) -> Count:
    return replace(count, names=[datetime.now(UTC).isoformat()])


def reads_the_time(count: Count, _event: Event) -> Count:
    return replace(count, parts={"at": int(time.time())})


def draws(count: Count, _event: Event) -> Count:
    return replace(count, parts={"lot": random.randint(1, 6)})


def draws_by_name(count: Count, _event: Event) -> Count:
    return replace(count, names=[str(uuid4())])


def sleeps(count: Count, _event: Event) -> Count:
    time.sleep(0)
    return count


def reads_a_file(count: Count, _event: Event) -> Count:
    with open("names") as file:  # noqa: PTH123  it is the fault
        return replace(count, names=[*file])


def reads_the_environment(count: Count, _event: Event) -> Count:
    return replace(count, names=[os.getenv("NAME", "")])


IMPURE_CALLS = [reads_the_clock, reads_the_time, draws, draws_by_name, sleeps, reads_a_file, reads_the_environment]


@pytest.mark.parametrize("function", IMPURE_CALLS, ids=lambda each: each.__name__)
def test_a_call_that_is_not_pure_is_found_and_a_test_refuses_it(function: Callable[..., Any]) -> None:
    (fault,) = faults(with_evolve(function))
    assert fault.rule == "impure-call"
    line = int(fault.where.rpartition(":")[2])
    shown = Path(__file__).read_text(encoding="utf-8").splitlines()[line - 1]
    assert fault.subject.partition(": ")[2] in shown.replace('"', "'")
    with pytest.raises(WiringError, match="would decide something else"):
        given(with_evolve(function))


def calculates(count: Count, _event: Event) -> Count:
    later = datetime.fromtimestamp(0, UTC) + timedelta(days=1)
    name = uuid5(NAMESPACE_URL, time.strftime("%Y", time.gmtime(0)))
    return replace(count, names=[later.isoformat(), str(name), os.path.join("a", "b")])  # noqa: PTH118  it asks nothing


@pytest.mark.parametrize(
    "function",
    [takes_all, takes_each, raises_or_returns, forgets, forgets_as_text, calculates],
    ids=lambda each: each.__name__,
)
def test_what_always_returns_and_only_calculates_is_pure(function: Callable[..., Any]) -> None:
    assert [*faults(with_evolve(function))] == []


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


def test_one_event_instead_of_a_list() -> None:
    counts = Decider("count", state=Count, key="name")

    @counts.on
    def tell(_count: Count, counted: Counted) -> list[Doubled]:
        return Doubled(name=counted.name)  # type: ignore[return-value]  # the mistake

    with pytest.raises(ContractError, match=r"count\.tell returned one Doubled: return a list"):
        given(counts).when(Counted(name="a", parts={})).then()
