"""How much the callers of an MCP server over HTTP may ask for at once; what is asked ends when its caller has gone."""

import asyncio
from collections import Counter
from collections.abc import Coroutine
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from eventlib.errors import ContractError
from eventlib.http.rate_limit import caller_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from starlette.types import ASGIApp, Message, Receive, Scope, Send

T = TypeVar("T")
MOST_OF_CALLER, MOST_IN_ALL = 4, 16
"""How many tools run at once, for one caller and for all: each may have a process of its own."""


@dataclass(frozen=True, slots=True)
class _Asking:
    caller: str
    gone: asyncio.Event = field(default_factory=asyncio.Event)


_ASKING = ContextVar[_Asking | None]("_ASKING", default=None)


class Callers:
    """Tells the tools of an app who asks, and when it has hung up."""

    def __init__(self, app: "ASGIApp") -> None:
        self._app = app

    async def __call__(self, scope: "Scope", receive: "Receive", send: "Send") -> None:
        """See ASGI."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        body = list["Message"]()
        while not body or body[-1].get("more_body"):
            body.append(await receive())
            if body[-1]["type"] == "http.disconnect":
                return
        asking = _Asking(caller_of(scope))

        async def watched() -> None:
            while (await receive())["type"] != "http.disconnect":
                pass
            asking.gone.set()

        watch = asyncio.create_task(watched(), name="hang-up")

        async def again() -> "Message":
            if body:
                return body.pop(0)
            await asking.gone.wait()
            return {"type": "http.disconnect"}

        token = _ASKING.set(asking)
        try:
            await self._app(scope, again, send)
        finally:
            _ASKING.reset(token)
            watch.cancel()
            asking.gone.set()


class Work:
    """Runs what is asked. Guarantee: no more at once than is allowed, for one caller and in all, and not for those who have gone."""

    def __init__(self) -> None:
        self._running = Counter[str]()

    async def run(self, asked: Coroutine[Any, Any, T]) -> T:
        """Return what a tool answers. Raises: ContractError for what is too much at once, and when the caller has gone."""
        asking = _ASKING.get()
        if asking is None:  # on stdin there is one caller
            return await asked
        try:
            with self._slot(asking.caller):
                return await _unless_gone(asked, asking.gone)
        finally:
            asked.close()

    @contextmanager
    def _slot(self, caller: str) -> "Iterator[None]":
        if self._running[caller] >= MOST_OF_CALLER or self._running.total() >= MOST_IN_ALL:
            raise ContractError("too many questions are asked at once: ask again when one is answered")
        self._running[caller] += 1
        try:
            yield
        finally:
            self._running[caller] -= 1
            self._running += Counter()  # drops those who ask nothing


async def _unless_gone(asked: Coroutine[Any, Any, T], gone: asyncio.Event) -> T:
    doing, leaving = asyncio.ensure_future(asked), asyncio.ensure_future(gone.wait())
    either: list[asyncio.Future[Any]] = [doing, leaving]
    try:
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        if not doing.done():
            raise ContractError("the caller has hung up: nothing is answered")
        return doing.result()
    finally:
        for each in either:
            each.cancel()
        await asyncio.wait(either)
