"""Servers in one process do not end each other's streams."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import closing

import httpx
from sse_starlette import EventSourceResponse
from starlette.applications import Starlette
from starlette.requests import Request
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
