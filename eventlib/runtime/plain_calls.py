"""Calls of effects that are plain functions: each in a thread, so that none blocks the loop."""

import asyncio
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from contextvars import copy_context
from inspect import iscoroutine

from eventlib.errors import ContractError, UnforeseenEnd
from eventlib.ground.ends import as_error


class PlainCall:
    """One call of a plain function, in a thread of its own; `outcome` is what it returns or raises.

    A thread cannot be ended: who no longer waits for `outcome` leaves it to itself, and `when_over` says when it has ended.
    It is a daemon, so that no process waits for one that hangs. The slots of a service bound how many there are.
    """

    def __init__(self, function: Callable[..., object], arguments: Sequence[object], name: str) -> None:
        self.name = name
        self._loop = asyncio.get_running_loop()
        self.outcome: asyncio.Future[object] = self._loop.create_future()
        self._over = self._loop.create_future()
        work = copy_context().run, self._work, function, arguments
        threading.Thread(target=work[0], args=work[1:], name=name, daemon=True).start()

    @property
    def is_over(self) -> bool:
        """Whether its thread has come to its end."""
        return self._over.done()

    def when_over(self, then: Callable[[], None]) -> None:
        """Call a function in the loop once the thread has come to its end."""
        self._over.add_done_callback(lambda _: then())

    def _work(self, function: Callable[..., object], arguments: Sequence[object]) -> None:
        answer: object = None
        error: Exception | None = None
        try:
            answer = function(*arguments)
        except KeyboardInterrupt:  # no person interrupts a thread
            error = UnforeseenEnd("the function ended with KeyboardInterrupt")
        except BaseException as raised:  # noqa: BLE001  it is raised where the call is waited for
            error = as_error(raised)
        if isinstance(error, StopIteration):  # no future takes it
            error = UnforeseenEnd("the function ended with StopIteration")
        if iscoroutine(answer):
            answer.close()
            error = ContractError(f"{self.name} returned a coroutine: write `async def`, so that it is awaited")
        with suppress(RuntimeError):  # the loop is closed: the process has ended without it
            self._loop.call_soon_threadsafe(self._end, answer, error)

    def _end(self, answer: object, error: Exception | None) -> None:
        self._over.set_result(None)
        if self.outcome.done():
            return
        if error is None:
            self.outcome.set_result(answer)
        else:
            self.outcome.set_exception(error)
