"""Servers in one process do not end each other's streams, and leave no connection open."""

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import closing, suppress

import httpx
import pytest
from sse_starlette import EventSourceResponse
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from eventlib import WiringError
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
    monkeypatch.setattr("eventlib.http.serving.GRACE_S", 0.2)
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


@pytest.mark.parametrize("host", ["", "127.0.0.1:"])
def test_an_occupied_port_is_refused_with_one_that_is_free(host: str) -> None:
    with closing(Listening("0")) as first:
        taken = int(first.url.rpartition(":")[2])
        with pytest.raises(WiringError, match=r"cannot be used \(Address already in use\)") as refused:
            Listening(f"{host}{taken}", option="--port")
        suggested = re.search(r"name another port: --port (\S+) is free", str(refused.value))
        assert suggested is not None
        assert suggested[1].startswith(host)
        assert int(suggested[1].removeprefix(host)) != taken
        Listening(suggested[1]).close()


def test_an_address_of_another_machine_is_refused_with_one_of_this() -> None:
    with pytest.raises(WiringError, match=r"--http 192.0.2.1:80: .* name an address of this machine, .* 127.0.0.1:80"):
        Listening("192.0.2.1:80", identity=None)
