"""Serves HTTP before the application behind it has started: clients of this machine learn what it waits for."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping
from contextlib import asynccontextmanager
from typing import Any

from eventlib.errors import WiringError
from eventlib.ground.tasks import cancelled
from eventlib.ground.url import is_loopback

Message = MutableMapping[str, Any]


Receive = Callable[[], Awaitable[Message]]


Send = Callable[[Message], Awaitable[None]]


App = Callable[[Message, Receive, Send], Awaitable[None]]


_RETRY_AFTER_S = b"1"


class LateApp:
    """An ASGI app for one that has not started yet: /healthz is 200, everything else 503.

    Clients on this machine are told what it `lacks`, which has addresses in it; others find that in this process's log. With an `error_code`, clients of a schema registry can read the 503, too.
    """

    def __init__(self, lacks: Callable[[], str], error_code: int | None = None) -> None:
        self._lacks = lacks
        self._error_code = error_code
        self._app: App | None = None
        self._state: dict[str, Any] = {}

    @asynccontextmanager
    async def opened(self, app: App) -> AsyncIterator[None]:
        """Start an app, and route requests to it from then on. Raises: errors of its start."""
        async with _living(app) as self._state:
            self._app = app
            yield  # later errors are the app's

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """See ASGI."""
        if scope["type"] == "lifespan":
            await _nothing_to_start(receive, send)
        elif self._app is not None:
            await self._app({**scope, "state": {**self._state}}, receive, send)
        elif scope["path"] == "/healthz":
            await _answer(send, 200, {"status": "ok"})
        else:
            why = self._why(scope)
            code = {} if self._error_code is None else {"error_code": self._error_code, "message": why}
            await _answer(send, 503, {"type": "about:blank", "title": "starting", "status": 503, "detail": why, **code})

    def _why(self, scope: Message) -> str:
        lacks = self._lacks() if _is_local(scope) else ""
        return f"this process is starting, and waits for {lacks}" if lacks else "this process is starting"


def _is_local(scope: Message) -> bool:
    """Return whether a request comes from this machine, and not through a proxy on it."""
    passed_on = any(name == b"forwarded" or name.startswith(b"x-forwarded-") for name, _ in scope["headers"])
    return not passed_on and scope["client"] is not None and is_loopback(scope["client"][0])


async def _answer(send: Send, status: int, body: dict[str, object]) -> None:
    text = json.dumps(body, ensure_ascii=False).encode()
    kind = b"application/json" if status == 200 else b"application/problem+json"  # noqa: PLR2004  HTTP's
    headers = [(b"content-type", kind), (b"content-length", str(len(text)).encode())]
    headers += [] if status == 200 else [(b"retry-after", _RETRY_AFTER_S)]  # noqa: PLR2004  as above
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": text})


async def _nothing_to_start(receive: Receive, send: Send) -> None:
    while True:
        message = await receive()
        await send({"type": f"{message['type']}.complete"})
        if message["type"] == "lifespan.shutdown":
            return


@asynccontextmanager
async def _living(app: App) -> AsyncIterator[dict[str, Any]]:
    """Run an app's lifespan around the block, and yield its state. Raises: errors of the app's start."""
    asked, answers = asyncio.Queue[Message](), asyncio.Queue[Message]()
    state = dict[str, Any]()
    scope = {"type": "lifespan", "asgi": {"version": "3.0", "spec_version": "2.0"}, "state": state}
    life = asyncio.ensure_future(app(scope, asked.get, answers.put))
    try:
        await _phase("startup", life, asked, answers)
        yield state
        await _phase("shutdown", life, asked, answers)
    finally:
        await cancelled(life)


async def _phase(
    name: str, life: "asyncio.Future[None]", asked: asyncio.Queue[Message], answers: asyncio.Queue[Message]
) -> None:
    asked.put_nowait({"type": f"lifespan.{name}"})
    answer = asyncio.ensure_future(answers.get())
    either: list[asyncio.Future[Any]] = [life, answer]
    await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
    if not answer.done():
        answer.cancel()
        return  # an app without a lifespan ends here, or raises
    if answer.result()["type"] == f"lifespan.{name}.failed":
        await life  # its own error is better than the message, which is a traceback
        raise WiringError(f"the HTTP app failed at its {name}: {answer.result().get('message', '')}")
