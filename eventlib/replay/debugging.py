"""Stops in a debugger inside a handler, at its first line, with the arguments of a moment that was."""

import bdb
import os
import pdb  # noqa: T100  what this is for
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from types import FrameType
from typing import Any

from eventlib.errors import WiringError
from eventlib.event import Event
from eventlib.replay.decisions import Decision

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
