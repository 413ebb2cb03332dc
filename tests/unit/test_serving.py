"""Servers in one process do not end each other's streams, and leave no connection open."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import closing, suppress

import httpx
import pytest
from sse_starlette import EventSourceResponse
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from eventlib.http.serving import Listening


async def numbers() -> AsyncIterator[str]:
    for number in range(3):
        yield str(number)
        await asyncio.sleep(0.02)


async def stream(_: Request) -> EventSourceResponse:
    return EventSourceResponse(numbers())


async def test_a_server_that_comes_after_another_one_has_streams() -> None:
    for _ in range(2):
        with closing(Listening("0")) as listening:
            async with listening.serve(Starlette(routes=[Route("/", stream)])), httpx.AsyncClient() as client:
                told = (await client.get(listening.url)).text
        assert told.split() == ["data:", "0", "data:", "1", "data:", "2"]


async def test_a_client_whose_answer_takes_too_long_is_disconnected_when_its_server_ends(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("eventlib.http.serving._GRACE_S", 0.2)
    asked, answers = asyncio.Event(), asyncio.Event()

    async def answer_late(_: Request) -> Response:
        asked.set()
        with suppress(asyncio.CancelledError):  # as an application that ignores the server's end
            await asyncio.sleep(60)
        await answers.wait()
        return Response()

    async with asyncio.timeout(30):
        with closing(Listening("0")) as listening:
            url = httpx.URL(listening.url)
            async with listening.serve(Starlette(routes=[Route("/", answer_late)])):
                reader, writer = await asyncio.open_connection(url.host, url.port)
                writer.write(b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
                await asked.wait()
            assert await reader.read() == b""
        answers.set()
        writer.close()
        await writer.wait_closed()
