"""Stops a debugger inside a handler, with the state and event of a recorded decision."""

import bdb
import os
import pdb  # noqa: T100  what this is for
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from types import FrameType
from typing import Any, NamedTuple

from eventlib.errors import ContractError, UnknownKey, WiringError
from eventlib.eventlog import EventLog
from eventlib.model.decider import Decider
from eventlib.model.event import Event
from eventlib.model.handler import FOLLOWS, Handler
from eventlib.replay.key_history import KeyHistory, key_history
from eventlib.replay.point_in_time import full_id, ids_of, why_unknown
from eventlib.replay.steps import HistoryStep
from eventlib.runtime.parking.parked import WAITS_BEHIND


class HandlerCall(NamedTuple):
    """One call of a handler (of `evolve` for an event without one), with its arguments."""

    past: KeyHistory
    step: HistoryStep[Any]
    handler: Handler
    arguments: tuple[Any, ...]

    def emitted(self, returned: Any) -> Sequence[Event]:
        """Return the events that the call returned."""
        return returned if self.handler.emits else []

    @property
    def said(self) -> list[Event | None]:
        """The recorded events; None for one that the current code cannot read."""
        return [each.event for each in self.step.emitted]


async def decisions_about(log: EventLog, key: str, cause: str, decider_name: str | None = None) -> list[HandlerCall]:
    """Return the handler calls under a key that an event caused; if none, those that emitted it.

    `cause` is the event's id or a prefix of it, or a deadline's name. Calls that raised, so that the input was parked,
    are included. Without a decider's name, all deciders that know the key are searched.
    Raises: WiringError for an unknown decider; UnknownKey; ContractError when no handler was called because of it.
    """
    histories = await _histories(log, key, decider_name)
    event_id = full_id(histories, cause)
    about = [(history, step) for history in histories for step in history.steps if _is_about(step, event_id)]
    called = [decision for history, step in about if (decision := _decision(history, step)) is not None]
    caused = [each for each in called if each.step.deadline == cause or _is_input(each.step, event_id)]
    if called:
        return sorted(caused or called, key=lambda each: each.step.at)
    if not about:
        raise ContractError(await why_unknown(log, histories, cause))
    history, step = about[-1]
    raise ContractError(f"{history.decider.name} called no handler then: {_why_none(step)}")


async def _histories(log: EventLog, key: str, decider_name: str | None) -> list[KeyHistory]:
    choreography = log.choreography
    found = list[KeyHistory]()
    for decider in choreography.deciders if decider_name is None else (choreography.decider(decider_name),):
        try:
            found.append(await key_history(log, decider, key))
        except UnknownKey:
            if decider_name is not None:
                raise
    if not found:
        raise UnknownKey(f"no decider knows key {key!r}: `eventlib saga {key}` shows its events")
    return found


def _is_about(step: HistoryStep[Any], cause: str) -> bool:
    return step.deadline == cause or cause in ids_of(step)


def _is_input(step: HistoryStep[Any], event_id: str) -> bool:
    return step.kind in {"handled", "parked"} and step.input is not None and step.input.id == event_id


def _decision(history: KeyHistory, step: HistoryStep[Any]) -> HandlerCall | None:
    """Return a step's call of a handler; None if there was none."""
    decider: Decider[Any] = history.decider
    before = decider.initial if step.before is None else step.before
    if step.deadline is not None:
        deadline = decider.deadlines.get(step.deadline)
        handler = None if deadline is None else deadline.handler
        arguments: Sequence[Any] = (before,)
    else:
        event = None if step.input is None or not _was_called(step) else step.input.event
        handler = None if event is None else decider.handlers.get(type(event))
        if event is None or handler is None:
            return None
        if handler is FOLLOWS:
            handler = decider.evolving
        else:
            evolved = decider.evolved(before, event, step.meta)
            before = decider.initial if evolved is None else evolved
        arguments = (before, event)
    if handler is None:
        return None
    return HandlerCall(history, step, handler, (*arguments, step.meta) if handler.wants_meta else (*arguments,))


def _was_called(step: HistoryStep[Any]) -> bool:
    return step.kind == "handled" or (step.kind == "parked" and step.reason != WAITS_BEHIND)


def _why_none(step: HistoryStep[Any]) -> str:
    name = step.deadline or ("" if step.input is None else step.input.type)
    match step.kind:
        case "answered":
            return f"the event is an effect's answer to {name}"
        case "dropped" | "parked" | "discarded":
            return f"{name} was {step.kind}: {step.reason}"
        case _:
            return f"{name} has no handler in the current code"


Stop = Callable[[HandlerCall], Sequence[Event] | None]
"""Calls a decision's handler in a debugger; returns what it emits, None if the user quit before it returned."""


def stop_in_pdb(decision: HandlerCall) -> Sequence[Event] | None:
    """Call the handler in pdb, which reads its commands from stdin. Raises: what the handler raises."""
    try:
        return decision.emitted(pdb.Pdb(nosigint=True).runcall(decision.handler.call, *decision.arguments))
    except bdb.BdbQuit:
        return None


def debugpy_on(port: int, waiting: Callable[[], None]) -> Stop:
    """Wait for an IDE to attach on a local port, and return a Stop for it; `waiting` is called first.

    Raises: WiringError when debugpy is not installed, or cannot bind the port.
    """
    # Silences a warning about frozen modules: a handler is in none.
    os.environ.setdefault("PYDEVD_DISABLE_FILE_VALIDATION", "1")
    try:
        debugpy = import_module("debugpy")
    except ModuleNotFoundError as error:
        raise WiringError(
            "debugpy is not installed here: pip install 'eventlib-sagas[debug]', or let pdb stop (--debugger pdb)"
        ) from error
    try:
        debugpy.listen(("127.0.0.1", port))
    except (OSError, RuntimeError) as error:
        raise WiringError(f"debugpy cannot listen on port {port}, give another one with --port: {error}") from error
    waiting()
    debugpy.wait_for_client()
    return _stop_in_debugpy


def _stop_in_debugpy(decision: HandlerCall) -> Sequence[Event]:
    """Call the handler; the IDE stops in its frame on entry."""
    call = decision.handler.call
    settrace: Callable[..., None] = import_module("pydevd").settrace

    def entered(frame: FrameType, what: str, _: Any) -> None:
        if what == "call" and frame.f_code is getattr(call, "__code__", frame.f_code):
            sys.setprofile(None)
            settrace(suspend=True, trace_only_current_thread=True, patch_multiprocessing=False, stop_at_frame=frame)

    sys.setprofile(entered)
    try:
        returned = call(*decision.arguments)
    finally:
        sys.setprofile(None)
    return decision.emitted(returned)
