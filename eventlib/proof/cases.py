"""One call of a decider from a log: what had happened, and what arrived, or which deadline passed."""

import traceback
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, NamedTuple

from pydantic import BaseModel, ValidationError

from eventlib.errors import ContractError
from eventlib.model.decider import FORGET, Decider
from eventlib.model.event import Event, key_of
from eventlib.model.identity import derived_id
from eventlib.replay.key_history import KeyHistory
from eventlib.replay.steps import HistoryStep
from eventlib.testing.given import Given, given

_OWN = ("eventlib/testing/", "eventlib/model/", "eventlib/proof/")


class Failure(NamedTuple):
    """What a handler raises, and where: two calls go wrong in the same way if these are equal."""

    error: str
    function: str
    file: str
    line: int


@dataclass(frozen=True, slots=True)
class Case:
    """A decider, the events that it had handled or emitted, and the one that arrives; at a time (UTC).

    `input` is the name of a deadline instead, if it is one that passes.
    """

    decider: Decider[Any]
    history: tuple[Event, ...]
    input: Event | str
    at: datetime

    def given(self) -> Given[Any]:
        """Return what comes of it. Raises: what the code raises."""
        happened = given(self.decider, *self.history, at=self.at)
        return happened.when_passed(self.input) if isinstance(self.input, str) else happened.when(self.input)

    def decided(self) -> list[Event]:
        """Return what is emitted. Raises: what the code raises."""
        return self.given().emitted

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
        return self.history if isinstance(self.input, str) else (*self.history, self.input)

    def with_events(self, events: Sequence[Event]) -> "Case":
        """Return it with other events."""
        if isinstance(self.input, str):
            return replace(self, history=tuple(events))
        return replace(self, history=tuple(events[:-1]), input=events[-1])


def _is_applications(filename: str) -> bool:
    return "site-packages" not in filename and not any(own in filename for own in _OWN)


def cases_of(history: KeyHistory) -> Iterator[tuple[HistoryStep[Any], Case]]:
    """Yield each call of a handler, with an event or for a deadline, the newest first, with the step that it was."""
    past, found, renamed = list[Event](), list[tuple[HistoryStep[Any], Case]](), _Ids(history)
    for step in history.steps:
        event = None if step.input is None else step.input.event
        called = step.deadline if event is None else event if type(event) in history.decider.handlers else None
        if called is not None and called != FORGET and step.kind in {"handled", "deadline", "parked"}:
            found.append((step, renamed.in_case(Case(history.decider, tuple(past), called, step.at))))
        if step.kind == "handled" and event is not None:
            past.append(event)
        if step.deadline == FORGET:
            past.clear()
        elif step.kind in {"handled", "deadline"}:  # an effect's answer is handled later, as an input
            past += [each.event for each in step.emitted if each.event is not None]
    yield from reversed(found)


class _Ids:
    """The ids that events of a log have in a test: what names one by its id, as an idempotency key, names it there too."""

    def __init__(self, history: KeyHistory) -> None:
        told = [each for step in history.steps for each in (step.input, *step.emitted) if each is not None]
        self._names = {
            each.id: derived_id(type(each.event).__name__, history.decider.name, key_of(each.event) or "key", 0)
            for each in told
            if each.event is not None
        }

    def in_case(self, case: Case) -> Case:
        return case.with_events([with_values(each, self._names) or each for each in case.events])


def with_values(event: Event, instead: Mapping[str, str]) -> Event | None:
    """Return an event with other texts instead of some; None when its contract does not allow them."""
    return changed_event(event, _replaced(event.model_dump(), instead))


def changed_event(event: Event, fields: Any) -> Event | None:
    """Return an event with other fields; None when its contract does not allow them."""
    try:
        model: type[BaseModel] = type(event)
        found = model.model_validate(fields)
    except ValidationError:
        return None
    return found if isinstance(found, Event) else None


def _replaced(value: Any, instead: Mapping[str, str]) -> Any:
    if isinstance(value, dict):
        return {name: _replaced(each, instead) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_replaced(each, instead) for each in value]
    return instead.get(value, value) if isinstance(value, str) else value


@dataclass(frozen=True, slots=True)
class InputFilter:
    """Which inputs of a key are meant: those whose ids begin so, or are among these; all of them, and deadlines, by default."""

    begin: str = ""
    among: frozenset[str] | None = None

    def has(self, step: HistoryStep[Any]) -> bool:
        """Tell whether a step's input is one of them."""
        if step.input is None:
            return not self.begin and self.among is None
        return step.input.id.startswith(self.begin) and (self.among is None or step.input.id in self.among)


EVERY = InputFilter()


def failing_case(history: KeyHistory, inputs: InputFilter = EVERY) -> tuple[Case, Failure, str]:
    """Return the newest call on such an input that fails under the current code. Raises: ContractError when none does."""
    for step, case in cases_of(history):
        if inputs.has(step):
            failed = case.failure()
            if failed is not None:
                return case, *failed
    which = f"no input {inputs.begin}".rstrip()
    raise ContractError(
        f"today's code fails on {which} of {history.decider.name} {history.key}: `eventlib parked list` shows what is parked; "
        f"`eventlib history {history.decider.name} {history.key} --as-test` writes a test of what was decided"
    )


def how_it_fails(case: Case) -> Failure | None:
    """Return how the current code fails on a case, without its message, which may have values of it."""
    found = case.failure()
    return None if found is None else found[0]


def recorded_case(history: KeyHistory, inputs: InputFilter = EVERY) -> tuple[Case, list[Event]]:
    """Return the newest call on such an input that was handled, and what today's code emits for it.

    The ids of a test are others than those of a log, so what it emits is decided again. Raises: ContractError when there is none, or
    when today's code emits other events than were recorded.
    """
    for step, case in cases_of(history):
        if step.kind == "handled" and inputs.has(step):
            decided = case.decided()
            recorded = [type(each.event) for each in step.emitted]
            if [*map(type, decided)] != recorded:
                raise ContractError(
                    f"today's code emits {_names(map(type, decided))} where {_names(recorded)} was recorded: "
                    "`eventlib replay` shows what differs"
                )
            return case, decided
    which = f"event {inputs.begin}" if inputs.begin else "an event"
    raise ContractError(
        f"{history.decider.name} has not handled {which} of key {history.key}: `eventlib history` shows what it has"
    )


def _names(types: Iterable[type[Any]]) -> str:
    return ", ".join(each.__name__ for each in types) or "nothing"
