"""The steps that a process waits for at its start: each is tried until it works, as long as its errors allow it."""

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from dataclasses import dataclass, field
from time import monotonic
from typing import TypeVar

from eventlib.errors import RetryableError, UnforeseenEnd
from eventlib.ground.ends import as_error, is_asked_for

T = TypeVar("T")

_log = logging.getLogger(__name__)
_SHOWN = 3


@dataclass(frozen=True, slots=True)
class Backoff:
    """Pauses between attempts, doubled from `first_s` up to `longest_s`, each shortened at random by up to a half.

    A step without an answer is reported after `slow_s`; the same reason is reported again after `quiet_s` (seconds).
    """

    first_s: float = 0.2
    longest_s: float = 5.0
    slow_s: float = 3.0
    quiet_s: float = 60.0


@dataclass(slots=True)
class _Step:
    """A step that does not work yet; `since` is monotonic time (seconds)."""

    reason: str = ""
    failures: int = 0
    since: float = field(default_factory=monotonic)


class Startup:
    """The steps of one process's start that are not done, and why: for stderr, `/readyz` and `eventlib status`.

    `on_change` is called with `lacks` whenever that changes. Guarantee: only Retryable errors lead to another attempt;
    any other error leaves at once. A reason is passed to `report` when it is new, and then every `quiet_s`.
    """

    def __init__(self, report: Callable[[str], None] = _log.warning, backoff: Backoff | None = None) -> None:
        self.on_change: Callable[[str], None] = lambda _: None
        self._report = report
        self._backoff = backoff or Backoff()
        self._open = dict[str, _Step]()
        self._reported = dict[str, float]()

    @property
    def lacks(self) -> str:
        """The step that is waited for, in one sentence; empty without one."""
        steps = dict[str, str]()
        for what, step in self._open.items():
            steps.setdefault(step.reason or what, what)
        shown = [f"{what}: {reason}" if reason != what else what for reason, what in [*steps.items()][:_SHOWN]]
        more = [f"and {len(steps) - _SHOWN} more"] if len(steps) > _SHOWN else []
        return "; ".join([*shown, *more])

    def begin(self, what: str) -> None:
        """Take note that a step has not worked yet: until `done`, `lacks` names it."""
        self._open.setdefault(what, _Step())

    async def run(self, what: str, attempt: Callable[[], Awaitable[T]]) -> T:
        """Try a step until it works, and return its result. Raises: any error of it that is not RetryableError."""
        self.begin(what)
        slow = asyncio.get_running_loop().call_later(self._backoff.slow_s, self._slow, what)
        try:
            while True:
                try:
                    result = await attempt()
                except RetryableError as error:
                    pause_s = self.failed(what, error)
                    slow.cancel()
                else:
                    self.done(what)
                    return result
                await asyncio.sleep(pause_s)
        finally:
            slow.cancel()
            self.drop(what)

    async def enter(self, stack: AsyncExitStack, what: str, context: Callable[[], AbstractAsyncContextManager[T]]) -> T:
        """Enter a context, which is made again for each attempt, as a step. Raises: as `run`."""

        async def entered() -> T:
            try:
                return await stack.enter_async_context(context())
            except BaseException as raised:  # what opens ports is the application's
                if isinstance(raised, Exception) or is_asked_for(raised):
                    raise
                raise UnforeseenEnd(f"{what}: {as_error(raised)}") from raised

        return await self.run(what, entered)

    def failed(self, what: str, error: RetryableError) -> float:
        """Take note that a step has to be tried again, and return the pause before that (seconds)."""
        step = self._open.setdefault(what, _Step())
        step.failures += 1
        self._note(what, step, str(error))
        pause_s = min(self._backoff.first_s * float(1 << min(step.failures - 1, 30)), self._backoff.longest_s)
        return pause_s * random.uniform(0.5, 1.0)  # noqa: S311  spreads load, hides nothing

    def done(self, what: str) -> None:
        """Take note that a step works."""
        step = self.drop(what)
        if step is not None and self._reported and not any(each.reason for each in self._open.values()):
            self._reported.clear()
            self._report(f"No longer waiting, after {monotonic() - step.since:.1f} s.")

    def drop(self, what: str) -> _Step | None:
        """Forget a step: it works, or is not tried any more."""
        step = self._open.pop(what, None)
        if step is not None and step.reason:
            self.on_change(self.lacks)
        return step

    def _slow(self, what: str) -> None:
        if (step := self._open.get(what)) is not None:
            self._note(what, step, "no answer yet")

    def _note(self, what: str, step: _Step, reason: str) -> None:
        changed, step.reason = step.reason != reason, reason
        if changed:
            self.on_change(self.lacks)
        now = monotonic()
        if now - self._reported.get(reason, float("-inf")) >= self._backoff.quiet_s:
            self._reported[reason] = now
            self._report(f"Waiting for {what}: {reason}")
