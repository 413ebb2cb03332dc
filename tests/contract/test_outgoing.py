"""Answers of others are bounded while they are inflated, in every client: a few kilobytes of theirs fill no memory here."""

import asyncio
import gzip
import tracemalloc
import zlib
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from functools import cache

import httpx
import pytest
from pydantic import AnyHttpUrl, SecretStr

from eventlib.codec.remote_registry import RemoteRegistry
from eventlib.errors import LogUnavailable, OutcomeUnknown, RegistryUnavailable
from eventlib.ground.http_client import http_client
from eventlib.log.kafka.options import KafkaOptions
from eventlib.log.kafka.security import NoToken, connection_arguments
from services.analytics.live import OrdersApi
from services.http_calls import open_calls
from services.payment.http_gateway import HttpGateway
from services.settings import ShopSettings
from tests.serving import serving

MEGABYTES = 60_000_000


@cache
def bomb() -> bytes:
    return gzip.compress(bytes(200_000_000), 1)


@asynccontextmanager
async def answering(body: bytes, *headers: str) -> AsyncIterator[str]:
    """Serve one answer to every request, and return its URL; `seen` are what was asked."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        request = await reader.readuntil(b"\r\n\r\n")
        SEEN.append(request.decode().lower())
        lines = ["HTTP/1.1 200 OK", f"Content-Length: {len(body)}", "Content-Type: application/json", *headers, "", ""]
        writer.write("\r\n".join(lines).encode() + body)

    SEEN.clear()
    async with serving(serve) as port:
        yield f"http://127.0.0.1:{port}"


SEEN: list[str] = []


@contextmanager
def in_bounded_memory() -> Iterator[None]:
    tracemalloc.start()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] < MEGABYTES
    finally:
        tracemalloc.stop()
    assert SEEN
    assert all("\r\naccept-encoding: identity\r\n" in request for request in SEEN)


async def test_a_gateways_answer_is_bounded() -> None:
    async with answering(bomb(), "Content-Encoding: gzip") as url, open_calls(AnyHttpUrl(url), ShopSettings()) as calls:
        with in_bounded_memory(), pytest.raises(OutcomeUnknown, match="the answer has more than 1,000,000 bytes"):
            await HttpGateway(calls).charge("key", "1", 750, "GBP")


async def test_a_registrys_answer_is_bounded() -> None:
    async with answering(bomb(), "Content-Encoding: gzip") as url:
        registry = RemoteRegistry(url)
        with in_bounded_memory(), pytest.raises(RegistryUnavailable, match="more than 8,000,000 bytes"):
            await registry.subjects()
        await registry.close()


async def test_a_token_servers_answer_is_bounded() -> None:
    async with answering(bomb(), "Content-Encoding: gzip") as url:
        options = KafkaOptions(
            sasl="OAUTHBEARER", oauth_token_url=url, oauth_client_id="a", oauth_client_secret=SecretStr("b")
        )
        provider = connection_arguments(options)["sasl_oauth_token_provider"]
        with in_bounded_memory(), pytest.raises(NoToken, match="more than 1,000,000 bytes"):
            await provider.token()


async def test_an_order_apis_answer_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("analytics.reconciling.http.TRIES", 1)
    async with answering(bomb(), "Content-Encoding: gzip") as url:
        with (
            in_bounded_memory(),
            OrdersApi(url) as api,
            pytest.raises(LogUnavailable, match="more than 8,000,000 bytes"),
        ):
            await asyncio.to_thread(list, api.rows())


async def test_a_collectors_answer_is_not_inflated(monkeypatch: pytest.MonkeyPatch) -> None:
    from opentelemetry.sdk.trace.export import SpanExportResult

    from eventlib.telemetry.process import exporter_of

    async with answering(bomb(), "Content-Encoding: gzip") as url:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", url)
        exporter = exporter_of("otlp")
        with in_bounded_memory():
            assert await asyncio.to_thread(exporter.export, []) is SpanExportResult.SUCCESS
        exporter.shutdown()


async def test_a_long_answer_that_is_not_compressed_is_bounded() -> None:
    async with answering(b"x" * 1_001) as url, http_client(1_000) as asking:
        with pytest.raises(httpx.ReadError, match="more than 1,000 bytes"):
            await asking.get(url)


@pytest.mark.parametrize(
    ("encoding", "pack"), [("gzip", gzip.compress), ("deflate", zlib.compress), ("identity", bytes)]
)
async def test_a_small_answer_is_read_whichever_way_it_comes(encoding: str, pack: type[bytes]) -> None:
    async with answering(pack(b"well" * 250), f"Content-Encoding: {encoding}") as url, http_client(1_000) as asking:
        assert (await asking.get(url)).content == b"well" * 250


@pytest.mark.parametrize(
    ("encoding", "body"),
    [("gzip", gzip.compress(bytes(200_000), 1)[:-20]), ("gzip", b"not gzip"), ("br", b"x"), ("gzip, gzip", b"x")],
)
async def test_an_answer_that_cannot_be_inflated_is_an_error(encoding: str, body: bytes) -> None:
    async with answering(body, f"Content-Encoding: {encoding}") as url, http_client(1_000_000_000) as asking:
        with pytest.raises(httpx.DecodingError):
            await asking.get(url)
