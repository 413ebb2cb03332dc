"""`eventlib mcp --http`, asked by the official client: the tools of stdin and stdout, for those whom the gate lets in."""

import asyncio
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import TYPE_CHECKING

import httpx
import httpx2
import pytest

from eventlib import open_log
from eventlib.http.serving import Listening
from eventlib.identity import Identity, IdentityOptions, Role, add_token
from eventlib.identity.options import identity_options
from services import shop
from tests import forked
from tests.commands import ended
from tests.integration.test_mcp import told
from tests.issuers import SECRET

if TYPE_CHECKING:
    from mcp import Client

ASKED = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
HEADERS = {"accept": "application/json, text/event-stream"}


@asynccontextmanager
async def served(url: str, identity: Identity) -> AsyncIterator[str]:
    from eventlib.cli.mcp_http import mcp_app
    from eventlib.cli.mcp_server import server_of

    async with open_log(url, shop, read_only=True, personal=False) as log:
        with closing(Listening("0", identity=identity)) as listening:
            async with listening.serve(mcp_app(server_of(log), identity)):
                yield f"{listening.url}/mcp"


@asynccontextmanager
async def assistant(url: str, token: str | None = None) -> "AsyncIterator[Client]":
    from mcp import Client
    from mcp.client.streamable_http import streamable_http_client

    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    async with (
        asyncio.timeout(120),
        httpx2.AsyncClient(headers=headers) as http,
        Client(streamable_http_client(url, http_client=http)) as client,
    ):
        yield client


async def test_clients_ask_at_once_and_have_the_answers_of_the_commands(filled: str) -> None:
    async with served(filled, Identity(IdentityOptions())) as url, assistant(url) as one, assistant(url) as other:
        assert {each.name for each in (await one.list_tools()).tools} > {"saga", "sql", "explain_parked"}
        question = "SELECT outcome, count(*) AS n FROM sagas WHERE outcome != 'open' GROUP BY outcome ORDER BY 1"
        rows, saga = await asyncio.gather(told(one, "sql", question=question), told(other, "saga", key="declined"))
        assert rows["rows"] == [{"outcome": "order_cancelled", "n": 1}, {"outcome": "order_completed", "n": 2}]
        assert saga["events"][-1]["type"] == "OrderCancelled"
        async with httpx.AsyncClient(headers=HEADERS | {"Host": "evil.example"}) as client:  # a name that leads here
            assert (await client.post(url, json=ASKED)).status_code == 421


async def test_the_gate_decides_who_may_ask(filled: str, tmp_path: Path) -> None:
    file = tmp_path / "tokens.json"
    tokens = {role: add_token(file, role.value, [role])[0] for role in (Role.AUDITOR, Role.SHOP)}
    identity = Identity(identity_options(tokens_file=file, key=SECRET))
    async with served(filled, identity) as url, httpx.AsyncClient(headers=HEADERS) as client:
        for token, status in (("", 401), ("x" * 40, 401), (tokens[Role.SHOP], 403)):
            headers = {"Authorization": f"Bearer {token}"} if token else {}
            assert (await client.post(url, json=ASKED, headers=headers)).status_code == status
        held = {"Authorization": f"Bearer {tokens[Role.AUDITOR]}"}
        for more, status in (({"Origin": "https://evil.example"}, 403), ({"Content-Type": "text/plain"}, 415)):
            assert (await client.post(url, json=ASKED, headers=held | more)).status_code == status
        assert (await client.get(url.removesuffix("/mcp") + "/healthz")).status_code == 200
        assert (await client.get(url.removesuffix("mcp") + "other", headers=held)).status_code == 404
        async with assistant(url, tokens[Role.AUDITOR]) as auditor:
            assert (await told(auditor, "saga", key="declined"))["events"]


@pytest.mark.parametrize(
    ("options", "sentence"), [(("--insecure",), "it is for --http"), (("--http", "0.0.0.0:0"), "identity")]
)
def test_what_would_let_anyone_in_is_refused(filled: str, options: tuple[str, ...], sentence: str) -> None:
    done = ended("mcp", "--app", "services:shop", "--log", filled, *options)
    assert (done.returncode != 0, sentence in done.stderr, "Traceback" in done.stderr) == (True, True, False)


def test_the_command_serves_until_it_is_stopped(filled: str) -> None:
    line = [sys.executable, "-m", "eventlib", "mcp", "--app", "services:shop", "--log", filled, "--http", "0"]
    with forked.Popen(line, stderr=subprocess.PIPE, text=True) as server:
        assert server.stderr is not None
        said = server.stderr.readline()
        address = said.partition(" is at ")[2].partition(";")[0]
        answer = httpx.post(f"{address}/mcp", json=ASKED, headers=HEADERS, timeout=60)
        server.send_signal(signal.SIGTERM)
        assert server.wait(60) == 0
    assert "The MCP server of shop is at" in said
    assert "explain_parked" in answer.text
