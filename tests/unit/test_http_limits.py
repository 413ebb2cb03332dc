"""A client that sends too much, too slowly or not at all, or reads nothing, is disconnected; the others are served."""

import asyncio
import logging
import resource
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from typing import Any

import httpx
import pytest
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from eventlib.http.admission import Admission
from eventlib.http.limits import HttpLimits
from eventlib.http.serving import Listening, RepeatedErrors, Server

LARGE = b"x" * 20_000_000
HELLO = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"


async def answer(request: Request) -> Response:
    try:
        body = await request.body()
    except ClientDisconnect:
        return Response()
    return PlainTextResponse(f"{len(body)}")


async def large(_: Request) -> Response:
    return Response(LARGE)


APP = Starlette(routes=[Route("/", answer, methods=["GET", "POST"]), Route("/large", large)])


@asynccontextmanager
async def serving(**limits: Any) -> AsyncIterator[tuple[str, int, Server]]:
    fixed = {name: limits.pop(name) for name in HttpLimits.__class_vars__ & limits.keys()}
    tight: type[HttpLimits] = type("Tight", (HttpLimits,), fixed)
    with closing(Listening("0", limits=tight(**limits))) as listening:
        async with listening.serve(APP) as server, asyncio.timeout(60):
            url = httpx.URL(listening.url)
            yield url.host, url.port or 0, server


async def sent(host: str, port: int, *parts: bytes) -> bytes:
    """Send bytes, and return all that is answered until the server closes the connection."""
    reader, writer = await asyncio.open_connection(host, port)
    found = b""
    try:
        for part in parts:
            writer.write(part)
            await writer.drain()
        while piece := await reader.read(65_536):
            found += piece
    except ConnectionError:
        pass  # it was closed while more was sent
    finally:
        writer.close()
    return found


async def test_headers_of_many_bytes_are_refused_and_not_kept() -> None:
    async with serving() as (host, port, _):
        endless = [b"GET / HTTP/1.1\r\nHost: a\r\nX: ", *[b"y" * 65_536] * 100]
        assert (await sent(host, port, *endless)).startswith((b"HTTP/1.1 431", b""))
        whole = b"GET / HTTP/1.1\r\nHost: a\r\nX: " + b"y" * 66_000 + b"\r\n\r\n"
        assert (await sent(host, port, whole)).startswith(b"HTTP/1.1 431")
        target = b"GET /?" + b"y" * 66_000 + b" HTTP/1.1\r\nHost: a\r\n\r\n"
        assert (await sent(host, port, target)).startswith(b"HTTP/1.1 431")


async def test_a_head_that_does_not_end_is_cut_at_its_limit() -> None:
    async with serving(header_bytes=1_000, header_s=60) as (host, port, server):
        reader, writer = await asyncio.open_connection(host, port)
        writer.write(b"GET / HTTP/1.1\r\nX: ")
        for _ in range(8):
            writer.write(b"y" * 200)
            await asyncio.sleep(0.02)
        assert (await reader.read()).startswith(b"HTTP/1.1 431")
        writer.close()
        assert not server.task.done()


async def test_many_headers_are_refused() -> None:
    async with serving(header_count=20) as (host, port, _):
        few = b"".join(b"X-%d: y\r\n" % number for number in range(18))
        many = few + b"X-19: y\r\nX-20: y\r\n"
        close = b"GET / HTTP/1.1\r\nConnection: close\r\n"
        assert (await sent(host, port, close + few + b"\r\n")).startswith(b"HTTP/1.1 200")
        assert (await sent(host, port, close + many + b"\r\n")).startswith(b"HTTP/1.1 431")


async def test_trailers_are_not_kept() -> None:
    head = b"POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\n"
    trailers = b"".join(b"X-%d: y\r\n" % number for number in range(1_000))
    async with serving() as (host, port, _):
        assert (await sent(host, port, head + trailers + b"\r\n")).endswith(b"\r\n2")


@pytest.mark.parametrize("part", [b"", b"GET / HTTP/1.1\r\nX: ", b"\r\n"])
async def test_a_request_that_does_not_come_is_not_waited_for(part: bytes) -> None:
    async with serving(header_s=0.2) as (host, port, _):
        found = await sent(host, port, part)
        assert found == b"" or found.startswith(b"HTTP/1.1 408")


async def test_headers_that_trickle_are_cut_off() -> None:
    async with serving(header_s=0.5) as (host, port, _):
        reader, writer = await asyncio.open_connection(host, port)
        writer.write(b"GET / HTTP/1.1\r\n")
        answered = asyncio.create_task(reader.read())
        while not answered.done():
            writer.write(b"X: y\r\n")
            await asyncio.sleep(0.05)
        assert answered.result().startswith(b"HTTP/1.1 408")
        writer.close()


async def test_the_next_request_of_a_connection_has_a_deadline_too() -> None:
    async with serving(header_s=0.3) as (host, port, _):
        reader, writer = await asyncio.open_connection(host, port)
        writer.write(HELLO)
        assert (await reader.readuntil(b"\r\n\r\n0")).startswith(b"HTTP/1.1 200")
        writer.write(b"G")
        assert (await reader.read()).startswith(b"HTTP/1.1 408")
        writer.close()


@pytest.mark.parametrize("form", [b"Content-Length: 1000", b"Transfer-Encoding: chunked"])
async def test_a_body_that_trickles_is_cut_off(form: bytes) -> None:
    async with serving(body_s=0.5, body_rate=1_000) as (host, port, _):
        reader, writer = await asyncio.open_connection(host, port)
        writer.write(b"POST / HTTP/1.1\r\nHost: a\r\n" + form + b"\r\n\r\n")
        answered = asyncio.create_task(reader.read())
        while not answered.done():
            writer.write(b"1\r\nx\r\n" if b"chunked" in form else b"x")
            await asyncio.sleep(0.05)
        assert answered.result().startswith(b"HTTP/1.1 408")
        writer.close()


async def test_a_body_that_comes_at_the_least_rate_is_read() -> None:
    async with serving(body_s=0.5, body_rate=100) as (host, port, _):
        reader, writer = await asyncio.open_connection(host, port)
        writer.write(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 300\r\n\r\n")
        for _ in range(15):
            writer.write(b"x" * 20)
            await asyncio.sleep(0.05)
        assert (await reader.readuntil(b"300")).startswith(b"HTTP/1.1 200")
        writer.close()


async def test_a_client_that_does_not_read_its_answer_is_disconnected() -> None:
    async with serving(write_s=0.3) as (host, port, _):
        reader, writer = await asyncio.open_connection(host, port, limit=1_000)
        writer.write(b"GET /large HTTP/1.1\r\nHost: a\r\n\r\n")
        await reader.readuntil(b"\r\n\r\n")
        writer.transport.pause_reading()  # type: ignore[attr-defined]  # a transport of a socket has it
        await asyncio.sleep(1)
        writer.transport.resume_reading()  # type: ignore[attr-defined]  # as above
        with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
            await reader.readexactly(len(LARGE))
        writer.close()


async def test_a_flood_of_pipelined_requests_is_refused() -> None:
    async with serving() as (host, port, _):
        found = await sent(host, port, HELLO * 5_000)
        assert found.count(b"HTTP/1.1 ") < 100


async def test_connections_of_an_address_and_in_all_are_bounded() -> None:
    async with serving(connections=100, connections_per_address=5, header_s=60) as (host, port, _):
        waiting = [await asyncio.open_connection(host, port) for _ in range(5)]
        found = await sent(host, port, HELLO)
        assert found.startswith(b"HTTP/1.1 503")
        assert b"retry-after: 1\r\n" in found
        other = socket.create_connection((host, port), source_address=("127.0.0.2", 0))
        reader, writer = await asyncio.open_connection(sock=other)
        writer.write(HELLO)
        assert (await reader.readline()).startswith(b"HTTP/1.1 200")
        for each in (writer, *(each for _, each in waiting)):
            each.close()
            await each.wait_closed()
        async with httpx.AsyncClient() as client:
            while (await client.get(f"http://{host}:{port}/")).status_code != 200:
                await asyncio.sleep(0.01)  # until the server has seen that they are gone


async def test_a_connection_without_a_request_gives_way_to_a_new_one() -> None:
    async with serving(connections=10, connections_per_address=10, header_s=60) as (host, port, _):
        waiting = [await asyncio.open_connection(host, port) for _ in range(30)]
        waiting[-1][1].write(HELLO)
        assert (await waiting[-1][0].readline()).startswith(b"HTTP/1.1 200")
        assert (await sent(host, port, HELLO.replace(b"Host", b"Connection: close\r\nHost"))).startswith(
            b"HTTP/1.1 200"
        )
        for _, each in waiting:
            each.close()
        await asyncio.gather(*(each.wait_closed() for _, each in waiting), return_exceptions=True)


def test_an_address_elsewhere_has_a_limit_unless_all_may_come_from_one() -> None:
    def admitted(address: str, **limits: int) -> int:
        admission = Admission(HttpLimits(connections=600, **limits))
        return sum(admission.enter(address) for _ in range(1_000))

    assert admitted("192.0.2.1") == 256
    assert admitted("127.0.0.1") == admitted("192.0.2.1", connections_per_address=600) == 600
    assert admitted("127.0.0.1", connections_per_address=7) == 7


def test_descriptors_are_kept_for_other_files() -> None:
    most = Admission(HttpLimits(connections=1_000_000, connections_per_address=1_000_000)).most
    descriptors = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    assert descriptors * 0.7 <= most <= descriptors * 0.8


def test_equal_errors_are_logged_a_few_times_and_counted(caplog: pytest.LogCaptureFixture) -> None:
    log = logging.getLogger("flooded")
    limited = RepeatedErrors(most=3, window_s=0.05)
    log.addFilter(limited)
    for number in range(1_000):
        log.error("no descriptor for %d", number)
    log.error("another")
    assert len(caplog.records) <= 4 + 3 * 10
    assert "another" in caplog.messages


async def test_a_request_with_a_few_spare_seconds_is_served_as_before() -> None:
    async with serving() as (host, port, _), httpx.AsyncClient(base_url=f"http://{host}:{port}") as client:
        for size in (0, 1, 70_000, 900_000):
            assert (await client.post("/", content=b"x" * size)).text == str(size)
