"""Why a broker is not reached: found on real sockets, by what answers there."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path
from socket import EAI_NONAME, gaierror, socket
from typing import NoReturn

import pytest

from eventlib.devtools.kafka.config import HOST
from eventlib.log.kafka.options import KafkaOptions
from eventlib.log.kafka.probing import Trouble, probe
from eventlib.log.kafka.security import NoToken, connection_arguments
from tests.integration.authorities import Authority
from tests.serving import serving


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"), "one")


@asynccontextmanager
async def tls_server(authority: Authority) -> AsyncIterator[int]:
    """A program that speaks TLS and nothing else: it hangs up on what it is sent."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*authority.signed("broker"))

    async def hang_up(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
        await reader.read(1)

    async with serving(hang_up, context) as port:
        yield port


async def trouble(port: int, options: KafkaOptions) -> Trouble:
    found = await probe(HOST, port, options)
    assert found is not None
    return found


async def test_an_address_that_drops_packets_is_told_from_one_where_nothing_listens(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("eventlib.log.kafka.probing.CONNECTS_S", 0.2)
    with socket() as full, ExitStack() as clients:
        full.bind((HOST, 0))
        full.listen(0)
        port = full.getsockname()[1]
        for _ in range(3):  # until nothing more is accepted, as behind a firewall
            client = clients.enter_context(socket())
            client.setblocking(False)
            client.connect_ex((HOST, port))
        dropped = await trouble(port, KafkaOptions())
    refused = await trouble(port, KafkaOptions())
    assert dropped.what == f"{HOST}:{port} does not answer within 0.2 s"
    assert refused.what.startswith(f"nothing listens at {HOST}:{port} (")
    assert not dropped.stays


async def test_a_name_that_no_machine_has_is_told_from_a_broker_that_is_down(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(*_: object, **__: object) -> NoReturn:
        raise gaierror(EAI_NONAME, "Name or service not known")

    monkeypatch.setattr("socket.getaddrinfo", unknown)  # a real one would be asked of servers that are not here
    found = await probe("brokre", 9092, KafkaOptions())
    assert found is not None
    assert found.what == "the name brokre cannot be resolved from this machine (Name or service not known)"


async def test_a_port_that_speaks_tls_is_found_without_its_authority(authority: Authority) -> None:
    async with tls_server(authority) as port:
        found = await trouble(port, KafkaOptions())
    assert found == Trouble(f"{HOST}:{port} requires TLS", "set EVENTLIB_KAFKA_TLS=true", stays=True)


async def test_a_certificate_of_an_unknown_authority_is_named_with_what_was_trusted(
    authority: Authority, tmp_path: Path
) -> None:
    another = str(Authority(tmp_path, "another").certificate)
    async with tls_server(authority) as port:
        by_system = await trouble(port, KafkaOptions(tls=True))
        by_another = await trouble(port, KafkaOptions(tls=True, tls_ca=another))
    assert f"the certificate of {HOST}:{port} is not trusted by the system's authorities: " in by_system.what
    assert f"is not trusted by {another}: " in by_another.what
    assert by_system.stays
    assert by_another.stays


async def test_who_hangs_up_after_tls_may_want_a_sign_in(authority: Authority) -> None:
    trusting = KafkaOptions(tls=True, tls_ca=str(authority.certificate))
    signing_in = KafkaOptions(
        tls=True,
        tls_ca=str(authority.certificate),
        sasl="PLAIN",
        user="a",
        password="b",  # type: ignore[arg-type]  # noqa: S106
    )
    async with tls_server(authority) as port:
        anonymous, signed_in = await trouble(port, trusting), await trouble(port, signing_in)
    assert anonymous.what == f"{HOST}:{port} requires a sign-in"
    assert f"{HOST}:{port} does not answer as a Kafka broker does" in signed_in.what
    assert not anonymous.stays


@asynccontextmanager
async def token_server(status: str, body: str) -> AsyncIterator[tuple[KafkaOptions, list[bytes]]]:
    """A token server with one answer, the options that lead there, and the requests it has had."""
    asked = list[bytes]()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(f"HTTP/1.1 {status}\r\ncontent-length: {len(body)}\r\nconnection: close\r\n\r\n{body}".encode())
        await writer.drain()

    async with serving(answer) as port:
        yield (
            KafkaOptions(
                sasl="OAUTHBEARER",
                oauth_token_url=f"http://{HOST}:{port}/token",
                oauth_client_id="shop",
                oauth_client_secret="hush",  # type: ignore[arg-type]  # noqa: S106  pydantic makes a secret of it
            ),
            asked,
        )


@pytest.mark.parametrize(("lives_s", "requests"), [(300, 1), (0, 3)])
async def test_a_token_is_used_until_it_expires_soon(lives_s: int, requests: int) -> None:
    async with token_server("200 OK", f'{{"access_token": "t", "expires_in": {lives_s}}}') as (options, asked):
        tokens = connection_arguments(options)["sasl_oauth_token_provider"]
        assert [await tokens.token() for _ in range(3)] == ["t"] * 3
        assert len(asked) == requests


@pytest.mark.parametrize("status", [400, 401, 403])
async def test_a_token_server_that_refuses_this_client_is_not_asked_again(status: int) -> None:
    async with token_server(f"{status} No", "") as (options, _):
        with pytest.raises(NoToken) as caught:
            await connection_arguments(options)["sasl_oauth_token_provider"].token()
    assert caught.value.refused


@pytest.mark.parametrize("status", [404, 408, 425, 429, 500, 503])
async def test_a_token_server_that_is_down_or_busy_is_asked_later(status: int) -> None:
    async with token_server(f"{status} Later", "") as (options, _):
        with pytest.raises(NoToken) as caught:
            await connection_arguments(options)["sasl_oauth_token_provider"].token()
    assert not caught.value.refused


async def test_no_other_sign_in_has_tokens() -> None:
    assert "sasl_oauth_token_provider" not in connection_arguments(KafkaOptions())
