"""One call of a decider from a log: what had happened, what arrived; and the smallest one that goes wrong in the same way."""

import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, NamedTuple

from pydantic import BaseModel, ValidationError

from eventlib.errors import ContractError
from eventlib.model.decider import Decider
from eventlib.model.event import Event, contract_of
from eventlib.replay.key_history import KeyHistory
from eventlib.replay.steps import HistoryStep
from eventlib.testing.given import DEFAULT_TIME, given

_OWN = ("eventlib/testing/", "eventlib/model/", "eventlib/proof/")


class Failure(NamedTuple):
    """What a handler raises, and where: two calls go wrong in the same way if these are equal."""

    error: str
    function: str
    file: str
    line: int


@dataclass(frozen=True, slots=True)
class Case:
    """A decider, the events that it had handled or emitted, and the one that arrives; at a time (UTC)."""

    decider: Decider[Any]
    history: tuple[Event, ...]
    input: Event
    at: datetime

    def decided(self) -> list[Event]:
        """Return what is emitted. Raises: what the code raises."""
        return given(self.decider, *self.history, at=self.at).when(self.input).emitted

    def failure(self) -> tuple[Failure, str] | None:
        """Return how the current code fails, and its message; None if it does not."""
        try:
            self.decided()
        except Exception as error:  # noqa: BLE001  whatever a handler raises is what is looked for
            frames = [each for each in traceback.extract_tb(error.__traceback__) if _is_applications(each.filename)]
            last = frames[-1] if frames else traceback.extract_tb(error.__traceback__)[-1]
            return Failure(type(error).__name__, last.name, last.filename, last.lineno or 0), str(error)
        return None

    @property
    def events(self) -> tuple[Event, ...]:
        """All its events."""
        return (*self.history, self.input)

    def with_events(self, events: Sequence[Event]) -> "Case":
        """Return it with other events."""
        return replace(self, history=tuple(events[:-1]), input=events[-1])


def _is_applications(filename: str) -> bool:
    return "site-packages" not in filename and not any(own in filename for own in _OWN)


def cases_of(history: KeyHistory) -> Iterator[tuple[HistoryStep[Any], Case]]:
    """Yield each call of a handler with an event, the newest first, with the step that it was."""
    past, found = list[Event](), list[tuple[HistoryStep[Any], Case]]()
    for step in history.steps:
        event = None if step.input is None else step.input.event
        if event is not None and step.kind in {"handled", "parked"} and type(event) in history.decider.handlers:
            found.append((step, Case(history.decider, tuple(past), event, step.at)))
        if step.kind == "handled" and event is not None:
            past.append(event)
        if step.kind in {"handled", "deadline"}:  # an effect's answer is handled later, as an input
            past += [each.event for each in step.emitted if each.event is not None]
    yield from reversed(found)


def failing_case(history: KeyHistory, event_id: str | None = None) -> tuple[Case, Failure, str]:
    """Return the newest call, or the one of an event, that fails under the current code.

    Raises: ContractError when none does.
    """
    for step, case in cases_of(history):
        if event_id is None or (step.input is not None and step.input.id.startswith(event_id)):
            failed = case.failure()
            if failed is not None:
                return case, *failed
    which = "no input" if event_id is None else f"no input {event_id}"
    raise ContractError(
        f"today's code fails on {which} of {history.decider.name} {history.key}: `eventlib parked list` shows what is parked; "
        f"`eventlib history {history.decider.name} {history.key} --as-test` writes a test of what was decided"
    )


def shrunk(case: Case, failure: Failure) -> Case:
    """Return a smaller case that fails in the same way: fewer events, simpler fields."""

    def fails(tried: Case) -> bool:
        found = tried.failure()
        return found is not None and found[0] == failure

    timeless = replace(case, at=DEFAULT_TIME)
    case, before = _with_one_key(_with_fewer(timeless if fails(timeless) else case, fails), fails), None
    while case != before:  # simpler fields may make events needless
        before, case = case, _with_fewer(_with_simpler(case, fails), fails)
    return case


_Fails = Callable[[Case], bool]


def _with_fewer(case: Case, fails: _Fails) -> Case:
    size = max(1, len(case.history) // 2)
    while True:
        first = 0
        while first < len(case.history):
            tried = replace(case, history=case.history[:first] + case.history[first + size :])
            if fails(tried):
                case = tried
            else:
                first += size
        if size == 1:
            return case
        size //= 2


def _with_one_key(case: Case, fails: _Fails) -> Case:
    """Rename the key in all events at once."""
    keys = {str(getattr(event, name)) for event in case.events if (name := contract_of(type(event)).key)}
    for key in sorted(keys):
        renamed = [_changed(event, _renamed(event.model_dump(), key, "k")) for event in case.events]
        if None not in renamed:
            tried = case.with_events([each for each in renamed if each is not None])
            case = tried if fails(tried) else case
    return case


def _renamed(value: Any, before: str, after: str) -> Any:
    if isinstance(value, dict):
        return {name: _renamed(each, before, after) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_renamed(each, before, after) for each in value]
    return after if value == before else value


def _with_simpler(case: Case, fails: _Fails) -> Case:
    """Make each field as simple as it may be."""
    for index in range(len(case.events)):
        for path, simpler in _simplifications(case.events[index].model_dump()):
            event = _changed(case.events[index], _put(case.events[index].model_dump(), path, simpler))
            if event is not None and event != case.events[index]:
                tried = case.with_events([*case.events[:index], event, *case.events[index + 1 :]])
                case = tried if fails(tried) else case
    return case


_Path = tuple[str | int, ...]


def _simplifications(value: Any, path: _Path = ()) -> Iterator[tuple[_Path, Any]]:
    """Yield what a value and its parts may be instead, the simplest last: it is kept if it does."""
    parts: Iterable[tuple[str | int, Any]] = ()
    if isinstance(value, dict):
        parts = value.items()
    elif isinstance(value, list | tuple):
        parts = enumerate(value)
        yield from ((path, [*value[:count]]) for count in range(len(value) - 1, -1, -1))
    for name, part in parts:
        yield from _simplifications(part, (*path, name))
    if path:
        yield from ((path, each) for each in (*_simpler(value), None))


def _simpler(value: Any) -> tuple[Any, ...]:
    """Return simpler values of the same type."""
    match value:
        case bool():
            return (False,)
        case int():
            return tuple(each for each in (value // 10, 10, 1, 0) if abs(each) < abs(value))
        case str():
            return value[: len(value) // 2], value[:1], "x", ""
        case datetime():
            return (DEFAULT_TIME,)
        case _:
            return ()


def _put(value: Any, path: _Path, instead: Any) -> Any:
    if not path:
        return instead
    try:
        if isinstance(value, dict):
            return {**value, path[0]: _put(value[path[0]], path[1:], instead)}
        changed = [*value]
        changed[path[0]] = _put(changed[path[0]], path[1:], instead)  # type: ignore[index]
    except (IndexError, KeyError, TypeError):
        return value  # that part is gone by now
    return changed


def _changed(event: Event, fields: Any) -> Event | None:
    """Return an event with other fields; None when its contract does not allow them."""
    try:
        model: type[BaseModel] = type(event)
        found = model.model_validate(fields)
    except ValidationError:
        return None
    return found if isinstance(found, Event) else None


def recorded_case(history: KeyHistory, event_id: str | None = None) -> tuple[Case, list[Event]]:
    """Return the newest call, or the one of an event, that was handled, and what today's code emits for it.

    The ids of a test are others than those of a log, so what it emits is decided again. Raises: ContractError when there is none, or
    when today's code emits other events than were recorded.
    """
    for step, case in cases_of(history):
        if step.kind == "handled" and (event_id is None or (step.input and step.input.id.startswith(event_id))):
            decided = case.decided()
            recorded = [type(each.event) for each in step.emitted]
            if [*map(type, decided)] != recorded:
                raise ContractError(
                    f"today's code emits {_names(map(type, decided))} where {_names(recorded)} was recorded: "
                    "`eventlib replay` shows what differs"
                )
            return case, decided
    which = "an event" if event_id is None else f"event {event_id}"
    raise ContractError(
        f"{history.decider.name} has not handled {which} of key {history.key}: `eventlib history` shows what it has"
    )


def _names(types: Iterable[type[Any]]) -> str:
    return ", ".join(each.__name__ for each in types) or "nothing"
