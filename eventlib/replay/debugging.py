"""Stops a debugger inside a handler, with the state and the event of a past moment."""

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
from eventlib.model.decider import FOLLOWS, Decider, Handler
from eventlib.model.event import Event
from eventlib.replay.key_history import KeyHistory, key_history
from eventlib.replay.point_in_time import full_id, ids_of, why_unknown
from eventlib.replay.steps import HistoryStep
from eventlib.runtime.parking.parked import WAITS_BEHIND


class Decision(NamedTuple):
    """One call of a handler, or of `evolve` for an event that is only followed, with what it was called with."""

    past: KeyHistory
    step: HistoryStep[Any]
    handler: Handler
    arguments: tuple[Any, ...]

    def emitted(self, returned: Any) -> Sequence[Event]:
        """Return the events in what the call has returned."""
        return returned if self.handler.says else []

    @property
    def said(self) -> list[Event | None]:
        """What was said then; None for what today's code cannot read."""
        return [said.event for said in self.step.said]


async def decisions_about(log: EventLog, key: str, cause: str, decider_name: str | None = None) -> list[Decision]:
    """Return the calls of handlers under a key that an event led to; else those in which it was said.

    `cause` is the event's id or the beginning of it, or a deadline's name. Calls that raised, so that the input was
    parked, are among them. Without a decider's name all deciders that know the key are asked.
    Raises: WiringError for an unknown decider; UnknownKey; ContractError when no handler was called because of it.
    """
    pasts = await _pasts(log, key, decider_name)
    event_id = full_id(pasts, cause)
    about = [(past, step) for past in pasts for step in past.steps if _is_about(step, event_id)]
    called = [decision for past, step in about if (decision := _decision(past, step)) is not None]
    came = [each for each in called if each.step.deadline == cause or _came_in(each.step, event_id)]
    if called:
        return sorted(came or called, key=lambda each: each.step.at)
    if not about:
        raise ContractError(await why_unknown(log, pasts, cause))
    past, step = about[-1]
    raise ContractError(f"{past.decider.name} called no handler then: {_why_none(step)}")


async def _pasts(log: EventLog, key: str, decider_name: str | None) -> list[KeyHistory]:
    choreography = log.choreography
    found = list[KeyHistory]()
    for decider in choreography.deciders if decider_name is None else (choreography.decider(decider_name),):
        try:
            found.append(await key_history(log, decider, key))
        except UnknownKey:
            if decider_name is not None:
                raise
    if not found:
        raise UnknownKey(f"no decider knows key {key!r}: `eventlib saga {key}` shows what there is about it")
    return found


def _is_about(step: HistoryStep[Any], cause: str) -> bool:
    return step.deadline == cause or cause in ids_of(step)


def _came_in(step: HistoryStep[Any], event_id: str) -> bool:
    return step.kind in {"handled", "parked"} and step.input is not None and step.input.id == event_id


def _decision(past: KeyHistory, step: HistoryStep[Any]) -> Decision | None:
    """Return a step's call of a handler; None when there was none."""
    decider: Decider[Any] = past.decider
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
    return Decision(past, step, handler, (*arguments, step.meta) if handler.wants_meta else (*arguments,))


def _was_called(step: HistoryStep[Any]) -> bool:
    return step.kind == "handled" or (step.kind == "parked" and step.reason != WAITS_BEHIND)


def _why_none(step: HistoryStep[Any]) -> str:
    name = step.deadline or ("" if step.input is None else step.input.type)
    match step.kind:
        case "answered":
            return f"the event is the answer to {name}, which an effect gave"
        case "dropped" | "parked" | "discarded":
            return f"{name} was {step.kind}: {step.reason}"
        case _:
            return f"{name} has no handler in today's code"


Stop = Callable[[Decision], Sequence[Event] | None]
"""Calls a decision's handler in a debugger and returns what it says; None when the person has left before its end."""


def stop_in_pdb(decision: Decision) -> Sequence[Event] | None:
    """Call the handler in pdb, which reads its commands from stdin. Raises: what the handler raises."""
    try:
        return decision.emitted(pdb.Pdb(nosigint=True).runcall(decision.handler.call, *decision.arguments))
    except bdb.BdbQuit:
        return None


def debugpy_on(port: int, waiting: Callable[[], None]) -> Stop:
    """Wait for an IDE to attach on a port of this machine, and return what stops there; `waiting` is called before.

    Raises: WiringError when debugpy is not installed, or cannot have the port.
    """
    # A warning about frozen modules, which a handler is none of.
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


def _stop_in_debugpy(decision: Decision) -> Sequence[Event]:
    """Call the handler, and let the IDE stop in its frame as soon as it is entered."""
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
