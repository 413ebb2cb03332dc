"""Names what blocks the event loop of a process: which function of the application, for which key, for how long."""

import asyncio
import inspect
import logging
import sys
import threading
from collections.abc import Callable, Sequence
from time import monotonic
from types import CodeType, FrameType
from typing import Any

from eventlib.errors import EventlibError
from eventlib.model.event import Event, Meta, key_of
from eventlib.model.service import Service
from eventlib.model.signatures import name_of
from eventlib.model.topic import PARTITIONERS

_log = logging.getLogger(__name__)

_LOOKS = 4
"""How often the loop is looked at in the time after which it counts as blocked."""


class LoopWatch:
    """Checks from a thread whether the running loop answers, and names the function that blocks it.

    While the loop is blocked for `blocked_s` seconds, no task of the process makes progress. Guarantee: an event costs
    nothing; the loop answers a few times in `blocked_s`. A call that also holds the interpreter is measured, and not named.
    """

    def __init__(self, services: Sequence[Service], blocked_s: float) -> None:
        self._blocked_s = blocked_s
        self._functions = functions_of(services)
        self._loop = asyncio.get_running_loop()
        self._loop_thread = threading.get_ident()
        self._answered_at = monotonic()
        self._blocking = ""
        self._is_function_named = False
        self._was_late = False
        self._stopped = threading.Event()
        self._next = self._loop.call_soon(self._answer)
        threading.Thread(target=self._look_until_stopped, name="watch of the event loop", daemon=True).start()

    def stop(self) -> None:
        """Look no more."""
        self._stopped.set()
        self._next.cancel()

    def _answer(self) -> None:
        now = monotonic()
        late_s, self._answered_at = now - self._answered_at, now
        if late_s > self._blocked_s:
            what = self._blocking or "something that held the interpreter, or the machine"
            _log.warning("%s has blocked this process for %.1f s: none of its tasks went on meanwhile", what, late_s)
            self._blocking, self._is_function_named = "", False
        self._next = self._loop.call_later(self._blocked_s / _LOOKS, self._answer)

    def _look_until_stopped(self) -> None:
        while not self._stopped.wait(self._blocked_s / _LOOKS):
            self.look(monotonic())

    def look(self, now: float) -> None:
        """Name what blocks the loop, if it is late at two looks: a process that was stopped is late at one.

        A function of the application is named once; a place outside of them once, and looked at further: a function that
        blocks may follow without a pause.
        """
        blocked_s = now - self._answered_at
        was_late, self._was_late = self._was_late, blocked_s > self._blocked_s
        if not self._was_late or not was_late or self._is_function_named:
            return
        frame = sys._current_frames().get(self._loop_thread)  # noqa: SLF001  documented, for debuggers such as this
        function = function_in(frame, self._functions)
        if function is None and self._blocking:
            return
        self._is_function_named = function is not None
        self._blocking = function or place_of(frame)
        _log.warning(
            "%s blocks this process, for %.1f s by now: write what waits as an effect, and an effect that blocks as a plain "
            "function, which runs in a thread",
            self._blocking,
            blocked_s,
        )


def functions_of(services: Sequence[Service]) -> dict[CodeType, str]:
    """Return the code of the functions that an application gives to the library, each with its name for people."""
    found: list[tuple[Callable[..., Any], str]] = [(each, f"partitioner {name}") for name, each in PARTITIONERS.items()]
    for decider in (decider for service in services for decider in service.deciders):
        found += [(each, f"{decider.name}.{name_of(each)}") for each in decider.functions]
        for effect in decider.effects.values():
            asked = [effect.ask.call] if effect.otherwise is None else [effect.ask.call, effect.otherwise]
            found += [(each, f"effect {decider.name}.{name_of(each)}") for each in asked]
    codes = [(getattr(inspect.unwrap(function), "__code__", None), name) for function, name in found]
    return {code: name for code, name in codes if isinstance(code, CodeType)}


def function_in(frame: FrameType | None, functions: dict[CodeType, str]) -> str | None:
    """Return which of the functions a thread is in, where there, and for which key; None outside of them."""
    at = frame
    while at is not None:
        if at.f_code in functions:
            key = _key_in(at)
            where = f"{functions[at.f_code]}, in {place_of(frame)}"
            return where if key is None else f"{where}, for key {key!r}"
        at = at.f_back
    return None


def place_of(frame: FrameType | None) -> str:
    """Return the function, file and line that a thread is in."""
    if frame is None:
        return "an unknown function"
    return f"{frame.f_code.co_name} ({frame.f_code.co_filename}:{frame.f_lineno})"


def _key_in(frame: FrameType) -> str | None:
    """Return the key that a function works on, by what it was called with."""
    arguments = [frame.f_locals.get(name) for name in frame.f_code.co_varnames[: frame.f_code.co_argcount]]
    for each in arguments:
        if isinstance(each, Event):
            try:
                return key_of(each)
            except EventlibError:
                return None
        if isinstance(each, Meta):
            return each.subject
        if isinstance(each, bytes):
            return each.decode("utf-8", "backslashreplace")
    return None
