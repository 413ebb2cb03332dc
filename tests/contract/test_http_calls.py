"""What an answer over HTTP means: a value, an unknown outcome, or the end of trying."""

import asyncio
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
from pydantic import AnyHttpUrl

from eventlib.errors import OutcomeUnknown, TerminalError
from services.dispatch.http_carrier import HttpCarrier
from services.dispatch.ports import Booked
from services.http_calls import Calls, open_calls
from services.payment.http_gateway import HttpGateway
from services.payment.ports import Accepted, Charged, Declined, Voided
from services.settings import ShopSettings
from tests import forked
from tests.contract.outsides import over_http
from tests.ports import free_port

ROOT = Path(__file__).parents[2]
SETTINGS = ShopSettings(read_timeout_s=0.3, connect_timeout_s=0.3)


async def charged(answer: httpx.Response) -> Charged | Accepted | Declined:
    """Return what a gateway's answer to a charge means."""
    seen = list[httpx.Request]()

    def handle(request: httpx.Request) -> httpx.Response:
        seen.append(request)
        return answer

    async with httpx.AsyncClient(base_url="http://gateway/v1", transport=httpx.MockTransport(handle)) as client:
        try:
            return await HttpGateway(Calls(client)).charge("key", "1", 750, "GBP")
        finally:
            (request,) = seen
            assert (str(request.url), request.headers["Idempotency-Key"]) == ("http://gateway/v1/charges", "key")


async def test_answers_in_the_agreed_shape_are_values() -> None:
    assert await charged(httpx.Response(200, json={"outcome": "taken"})) == Charged()
    assert await charged(httpx.Response(201, json={"outcome": "taken", "id": "ch_1"})) == Charged()
    assert await charged(httpx.Response(200, json={"outcome": "declined", "reason": "no funds"})) == Declined(
        "no funds"
    )


@pytest.mark.parametrize("status", [408, 409, 425, 429, 500, 501, 502, 503, 504, 599])
async def test_not_now_is_an_unknown_outcome(status: int) -> None:
    with pytest.raises(OutcomeUnknown, match=f"charges \\(key\\): status {status}"):
        await charged(httpx.Response(status, json={"outcome": "taken"}))


@pytest.mark.parametrize("status", [301, 307, 400, 401, 403, 404, 405, 410, 415, 422])
async def test_never_is_terminal(status: int) -> None:
    with pytest.raises(TerminalError, match=f"status {status}: go away"):
        await charged(httpx.Response(status, text="go away"))


@pytest.mark.parametrize(
    "body",
    [
        b"", b"<h1>It works!</h1>", b"\xff\xfe", b"null", b"[]", b"{}", b'{"outcome": "taken"', b'{"outcome": ["taken"]}',
        b'{"outcome": "perhaps"}', b'{"outcome": "declined"}', b'{"outcome": "declined", "reason": ""}',
    ],
)  # fmt: skip
async def test_an_answer_that_nobody_understands_is_an_unknown_outcome(body: bytes) -> None:
    with pytest.raises(OutcomeUnknown, match="no known shape"):
        await charged(httpx.Response(200, content=body))


async def test_an_answer_that_is_not_what_it_says_is_an_unknown_outcome() -> None:
    class Lies(httpx.AsyncBaseTransport):
        async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
            stream = httpx.ByteStream(b"not gzip")
            return httpx.Response(200, headers={"Content-Encoding": "gzip"}, stream=stream, request=request)

    async with httpx.AsyncClient(base_url="http://gateway", transport=Lies()) as client:
        with pytest.raises(OutcomeUnknown):
            await HttpGateway(Calls(client)).void("key")


async def test_nobody_at_the_address_is_an_unknown_outcome() -> None:
    async with open_calls(AnyHttpUrl(f"http://127.0.0.1:{free_port()}/gateway"), SETTINGS) as calls:
        with pytest.raises(OutcomeUnknown):
            await HttpGateway(calls).charge("c", "1", 750, "GBP")


async def test_a_listener_that_never_answers_is_an_unknown_outcome() -> None:
    loop = asyncio.get_running_loop()
    with socket.create_server(("127.0.0.1", 0)) as listening:
        url = AnyHttpUrl(f"http://127.0.0.1:{listening.getsockname()[1]}/carrier")
        async with open_calls(url, SETTINGS) as calls:
            began = loop.time()
            with pytest.raises(OutcomeUnknown, match="ReadTimeout"):
                await HttpCarrier(calls).book("d", "1", "France")
            assert 0.25 < loop.time() - began < 3


@pytest.mark.parametrize("fault", ["error", "throttle", "garbage", "late"])
async def test_what_goes_wrong_between_sockets_is_an_unknown_outcome(tmp_path: Path, fault: str) -> None:
    async with over_http(tmp_path / "ledger.db", http={fault: 1.0}) as outside:
        with pytest.raises(OutcomeUnknown):
            await outside.gateway.charge("c", "1", 750, "GBP")
    async with over_http(tmp_path / "ledger.db") as outside:
        made = await outside.gateway.void("c")
        assert made == Voided(750 if fault in {"garbage", "late"} else 0)


async def test_a_server_that_cuts_every_connection_is_an_unknown_outcome(tmp_path: Path) -> None:
    async with over_http(tmp_path / "ledger.db", http={"down": True}) as outside:
        with pytest.raises(OutcomeUnknown):
            await outside.carrier.recall("d")


@contextmanager
def command(port: int, ledger: Path) -> Iterator["subprocess.Popen[str]"]:
    arguments = [sys.executable, "-m", "services", "simulators", "--port", str(port), "--ledger", str(ledger)]
    with forked.Popen(arguments, cwd=ROOT, stderr=subprocess.PIPE, text=True) as started:
        try:
            assert started.stderr is not None
            assert started.stderr.readline().startswith(f"Gateway and carrier on http://127.0.0.1:{port} (/docs)")
            yield started
        finally:
            started.kill()


@pytest.mark.heavy
async def test_the_server_survives_kill_9_with_its_ledger(tmp_path: Path) -> None:
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    settings = ShopSettings(connect_timeout_s=5, read_timeout_s=5)
    async with (
        open_calls(AnyHttpUrl(f"{url}/gateway"), settings) as gateway_calls,
        open_calls(AnyHttpUrl(f"{url}/carrier"), settings) as carrier_calls,
    ):
        gateway, carrier = HttpGateway(gateway_calls), HttpCarrier(carrier_calls)
        with command(port, tmp_path / "ledger.db") as server:
            assert await gateway.charge("c", "1", 750, "GBP") == Charged()
            booked = await carrier.book("d", "1", "France")
            os.kill(server.pid, signal.SIGKILL)
            server.wait()
        with pytest.raises(OutcomeUnknown):
            await gateway.charge("c", "1", 750, "GBP")
        with command(port, tmp_path / "ledger.db") as server:
            assert await gateway.charge("c", "1", 750, "GBP") == Charged()
            assert await carrier.book("d", "1", "France") == booked == Booked("P-d")
            assert await gateway.void("c") == Voided(750)
            async with httpx.AsyncClient(base_url=url) as client:
                await _faults_can_be_set(client)
            server.terminate()
            assert server.wait(120) in {0, -signal.SIGTERM}


async def _faults_can_be_set(client: httpx.AsyncClient) -> None:
    changed = await client.put("/faults", json={"gateway": {"decline": 1.0}})
    assert changed.json() == (await client.get("/faults")).json()
    body = {"order_id": "2", "amount_cents": 1, "currency": "GBP"}
    declined = await client.post("/gateway/charges", json=body, headers={"Idempotency-Key": "e"})
    assert declined.json() == {"outcome": "declined", "reason": "declined"}
    assert (await client.post("/gateway/charges", json=body)).status_code == 422
    wrongs: list[dict[str, object]] = [{"gateway": {"declin": 1.0}}, {"gateway": {"decline": 2.0}}, {"https": {}}]
    for wrong in wrongs:
        assert (await client.put("/faults", json=wrong)).status_code == 422
    described = (await client.get("/openapi.json")).json()
    assert {"/gateway/charges", "/gateway/voids", "/gateway/refunds", "/carrier/parcels", "/carrier/recalls"} < {
        *described["paths"]
    }
