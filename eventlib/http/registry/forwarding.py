"""Has the instance that may write do what this one may not."""

import asyncio
from collections.abc import Awaitable, Callable

import httpx
from fastapi import Request, Response

from eventlib.http.registry.messages import Answer
from eventlib.registry.errors import Refused, forwarding_failed, no_writer
from eventlib.registry.following import View
from eventlib.registry.writing import NotTheWriter, Writer

FORWARDED = "x-eventlib-forwarded"
POSITION = "x-eventlib-position"
_PATIENCE_S = 15.0
_PAUSE_S = 0.05
_CONNECT_S = 2.0
_ANSWER_S = 20.0
_KEPT = ("authorization", "content-type", "accept")


class Forwarding:
    """Writes here, or at the instance that may; waits for an election that is under way.

    Guarantee: what was written is in this instance's catalogue when its answer is given. What the other instance may
    have done without saying so is not asked for again, but for what has the same effect twice.
    """

    def __init__(
        self, view: View, writer: Writer, own_url: str, client: httpx.AsyncClient, certificate_name: str | None = None
    ) -> None:
        self._view = view
        self._writer = writer
        self._own_url = own_url
        self._client = client
        self._extensions = {} if certificate_name is None else {"sni_hostname": certificate_name}

    async def write(self, request: Request, act: Callable[[], Awaitable[object]]) -> Response:
        """Answer a request that writes. Raises: Refused."""
        if FORWARDED in request.headers:
            return await self._here(request, act)
        loop = asyncio.get_running_loop()
        deadline = loop.time() + _PATIENCE_S
        while True:
            answer = await self._tried(request, act)
            if answer is not None:
                return answer
            if loop.time() >= deadline:
                raise no_writer()
            await asyncio.sleep(_PAUSE_S)

    async def _here(self, request: Request, act: Callable[[], Awaitable[object]]) -> Response:
        try:
            found = await act()
        except NotTheWriter as error:
            _refuse_unknown(request, error)
            raise no_writer() from error
        return Answer(found, headers={POSITION: str(self._view.position)})

    async def _tried(self, request: Request, act: Callable[[], Awaitable[object]]) -> Response | None:
        """Return the answer, or None when nothing was done, and it may be tried again."""
        if self._writer.is_elected:
            try:
                return Answer(await act())
            except NotTheWriter as error:
                _refuse_unknown(request, error)
                return None
        url = self._view.writer
        if url is None or url == self._own_url:
            return None
        return await self._there(request, url)

    async def _there(self, request: Request, url: str) -> Response | None:
        headers = {name: request.headers[name] for name in _KEPT if name in request.headers}
        target = url.rstrip("/") + request.scope["raw_path"].decode("ascii")
        query = request.scope["query_string"].decode("ascii", "replace")
        try:
            answer = await self._client.request(
                request.method,
                f"{target}?{query}" if query else target,
                content=await request.body(),
                headers={**headers, FORWARDED: "1"},
                timeout=httpx.Timeout(_ANSWER_S, connect=_CONNECT_S),
                extensions=self._extensions,
            )
        except (httpx.ConnectError, httpx.ConnectTimeout):
            return None
        except httpx.HTTPError as error:
            if request.method == "DELETE":
                raise forwarding_failed(f"{url} did not answer ({type(error).__name__})") from error
            return None  # registering and setting have the same effect twice
        code = _code_in(answer)
        if code == no_writer().code:
            return None
        if code is None and not answer.is_success:
            raise forwarding_failed(f"{url} answered {answer.status_code}, and is no registry")
        if (position := answer.headers.get(POSITION, "")).isdecimal():
            await self._reach(int(position))
        return Response(answer.content, answer.status_code, media_type=answer.headers.get("content-type"))

    async def _reach(self, position: int) -> None:
        try:
            async with asyncio.timeout(_PATIENCE_S):
                await self._view.reach(position)
        except TimeoutError as error:
            raise Refused(500, 50002, "what was written cannot be read here yet: try again") from error


def _refuse_unknown(request: Request, error: NotTheWriter) -> None:
    """Refuse to delete again what may be deleted: it would seem never to have been there."""
    if error.may_have_written and request.method == "DELETE":
        raise forwarding_failed(str(error)) from error


def _code_in(answer: httpx.Response) -> int | None:
    """Return the registry's own code in an answer; None in one that a registry would not give."""
    try:
        return int(answer.json()["error_code"])
    except (ValueError, LookupError, TypeError):
        return None
