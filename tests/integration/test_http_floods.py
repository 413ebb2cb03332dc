"""Floods of connections from other addresses do not keep the orders of a shop's customers waiting."""

import asyncio
import os
import resource
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from functools import partial
from itertools import cycle
from pathlib import Path
from random import Random
from time import perf_counter
from typing import Any

import httpx
import pytest

from tests.integration.api_shop import reachable, ready, wanted
from tests.integration.test_api_process import EVENTLIB, ROOT, stock_shelves
from tests.ports import free_port

DESCRIPTORS = 200
FLOOD = 400
ADDRESSES = [f"127.0.0.{number}" for number in range(2, 8)]
_LINUX = pytest.mark.skipif(sys.platform != "linux", reason="it takes several addresses of the loopback interface")
Attack = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Coroutine[Any, Any, None]]


async def silent(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
    await reader.read()


async def slow_header(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(b"GET /orders HTTP/1.1\r\n")
    while not reader.at_eof():
        writer.write(b"X: y\r\n")
        await asyncio.sleep(0.2)


async def large_header(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(b"GET /orders HTTP/1.1\r\nX: ")
    while not reader.at_eof():
        writer.write(b"y" * 100_000)
        await writer.drain()


async def slow_body(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(
        b"POST /orders HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: 900000\r\n\r\n"
    )
    while not reader.at_eof():
        writer.write(b"[")
        await asyncio.sleep(0.2)


async def slow_read(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(b"GET /openapi.json HTTP/1.1\r\nHost: a\r\n\r\n" * 10)
    writer.transport.pause_reading()  # type: ignore[attr-defined]  # a transport of a socket has it
    await asyncio.sleep(60)
    del reader


@asynccontextmanager
async def flooding(port: int, attack: Attack) -> AsyncIterator[None]:
    """Keep hundreds of connections open from several addresses: one that is closed is opened again."""
    random = Random(1)

    async def one(address: str) -> None:
        while True:
            with suppress(OSError):
                reader, writer = await asyncio.open_connection("127.0.0.1", port, local_addr=(address, 0))
                try:
                    await attack(reader, writer)
                finally:
                    writer.transport.abort()
            await asyncio.sleep(random.uniform(0.5, 1.5))

    floods = [asyncio.create_task(one(address)) for _, address in zip(range(FLOOD), cycle(ADDRESSES), strict=False)]
    try:
        yield
    finally:
        for each in floods:
            each.cancel()
        await asyncio.gather(*floods, return_exceptions=True)


def few_descriptors() -> None:
    resource.setrlimit(resource.RLIMIT_NOFILE, (DESCRIPTORS, DESCRIPTORS))


@asynccontextmanager
async def shop(directory: Path) -> AsyncIterator[tuple[int, "subprocess.Popen[str]"]]:
    await stock_shelves(directory)
    port = free_port()
    command = [EVENTLIB, "run", "--log", f"sqlite:///{directory}/shop.db", "--http", str(port)]
    with (directory / "stderr").open("wb") as errors:
        variables = {**os.environ, "EVENTLIB_HTTP_BODY_S": "3", "EVENTLIB_HTTP_WRITE_S": "3"}
        start = partial(subprocess.Popen, preexec_fn=few_descriptors, text=True)
        process = start(command, cwd=ROOT, stderr=errors, env=variables)
        try:
            async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=20) as client:
                await reachable(client)
                await ready(client)
            yield port, process
        finally:
            process.kill()
            process.wait()


async def seconds_of_orders(port: int, count: int) -> list[float]:
    """Place orders, each on a connection of its own, and return how long each took."""
    found = list[float]()
    for _ in range(count):
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=60) as client:
            began = perf_counter()
            answer = await client.post("/orders", json=wanted())
            found.append(perf_counter() - began)
            assert answer.status_code == 202, answer.text
        await asyncio.sleep(0.02)
    return sorted(found)


def megabytes(process: "subprocess.Popen[str]") -> float:
    text = Path(f"/proc/{process.pid}/status").read_text(encoding="utf-8")
    return int(text.partition("VmHWM:")[2].split()[0]) / 1024


async def flooded(attack: Attack, directory: Path, orders: int) -> list[float]:
    """Return how long orders take while a flood is on, shortest first; memory and the log of errors stay small."""
    async with shop(directory) as (port, process):
        await seconds_of_orders(port, 5)
        before = megabytes(process)
        async with flooding(port, attack):
            await asyncio.sleep(1)
            seconds = await seconds_of_orders(port, orders)
        assert megabytes(process) < before + 150
    assert (directory / "stderr").stat().st_size < 100_000
    return seconds


@_LINUX
@pytest.mark.parametrize("attack", [pytest.param(silent, marks=pytest.mark.extended), slow_body])
async def test_orders_go_on_while_a_flood_is_on(attack: Attack, tmp_path: Path) -> None:
    assert (await flooded(attack, tmp_path, 30))[15] < 5


@_LINUX
@pytest.mark.slow
@pytest.mark.parametrize("attack", [silent, slow_header, large_header, slow_body, slow_read])
async def test_99_of_100_orders_take_less_than_a_second_while_a_flood_is_on(attack: Attack, tmp_path: Path) -> None:
    seconds = await flooded(attack, tmp_path, 300)
    assert seconds[296] < 1
