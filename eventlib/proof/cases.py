"""One call of a decider from a log: what had happened, what arrived; and the smallest one that goes wrong in the same way."""

import traceback
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, NamedTuple

from eventlib.errors import ContractError
from eventlib.model.decider import FORGET, Decider
from eventlib.model.event import Event
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
    """A decider, the events that it had handled or emitted, and the one that arrives; at a time (UTC)."""

    decider: Decider[Any]
    history: tuple[Event, ...]
    input: Event
    at: datetime

    def given(self) -> Given[Any]:
        """Return what comes of it. Raises: what the code raises."""
        return given(self.decider, *self.history, at=self.at).when(self.input)

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
        if step.deadline == FORGET:
            past.clear()
        elif step.kind in {"handled", "deadline"}:  # an effect's answer is handled later, as an input
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


def how_it_fails(case: Case) -> Failure | None:
    """Return how the current code fails on a case, without its message, which may have values of it."""
    found = case.failure()
    return None if found is None else found[0]


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
