"""`eventlib mcp --http`, asked by the official client: the tools of stdin and stdout, for those whom the gate lets in."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import httpx
import httpx2
import pytest

from eventlib import open_log
from eventlib.cli.mcp_asking import MOST_IN_ALL, MOST_OF_CALLER, Callers, Work
from eventlib.errors import ContractError
from eventlib.http.serving import Listening
from eventlib.identity import Identity, IdentityOptions, Role, add_token
from eventlib.identity.options import identity_options
from eventlib.sql import SqlQuery
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


ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n, sagas"


def workers() -> set[int]:
    """Return the processes that answer questions in SQL for this one."""
    found = set[int]()
    for place in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            parent = int(place.read_text().rpartition(")")[2].split()[1])
            if parent == os.getpid() and "eventlib/sql/worker.py" in (place.parent / "cmdline").read_text():
                found.add(int(place.parent.name))
    return found


def asking(url: str, question: str) -> "asyncio.Task[httpx.Response]":
    async def asked() -> httpx.Response:
        call = {"name": "sql", "arguments": {"question": question}}
        async with httpx.AsyncClient(headers=HEADERS, timeout=600) as client:
            return await client.post(url, json=ASKED | {"method": "tools/call", "params": call})

    return asyncio.create_task(asked())


async def test_a_caller_asks_for_so_much_at_once_and_for_nothing_once_it_has_hung_up(
    filled: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from eventlib.cli import mcp_tools

    monkeypatch.setattr(mcp_tools, "SqlQuery", partial(SqlQuery, within_s=600))  # longer than a test may take
    async with served(filled, Identity(IdentityOptions())) as url:
        endless = [asking(url, ENDLESS) for _ in range(MOST_OF_CALLER)]
        while len(workers()) < MOST_OF_CALLER:
            assert not any(each.done() for each in endless)
            await asyncio.sleep(0.02)
        refused = (await asking(url, "SELECT 1")).json()["result"]
        assert refused["isError"]
        assert "too many questions are asked at once" in refused["content"][0]["text"]
        for each in endless:
            each.cancel()
        await asyncio.wait(endless)
        while workers():
            await asyncio.sleep(0.02)
        answered = refused
        while "too many" in answered["content"][0]["text"]:  # a process ends just before its question does
            answered = (await asking(url, "SELECT count(*) AS n FROM sagas")).json()["result"]
        assert not answered.get("isError"), answered


async def test_all_callers_together_ask_for_so_much_at_once() -> None:
    work, go_on, codes = Work(), asyncio.Event(), list[str]()

    async def tool() -> str:
        await go_on.wait()
        return "done"

    async def app(_scope: object, _receive: object, _send: object) -> None:
        try:
            codes.append(await work.run(tool()))
        except ContractError as error:
            codes.append(str(error))

    async def call(caller: str) -> None:
        sent = [{"type": "http.request", "body": b"", "more_body": False}]

        async def receive() -> dict[str, object]:
            return sent.pop() if sent else await asyncio.Event().wait() and {}

        async def send(_message: object) -> None:
            pass

        await Callers(app)({"type": "http", "client": (caller, 1)}, receive, send)

    asked = [asyncio.create_task(call(f"10.0.0.{n % 8}")) for n in range(MOST_IN_ALL)]
    await asyncio.sleep(0)
    for _ in range(3):
        await call("10.0.0.9")
    assert len(codes) == 3
    assert all("too many questions are asked at once" in each for each in codes)
    go_on.set()
    await asyncio.wait(asked)
    await call("10.0.0.9")
    assert codes[3:] == ["done"] * (MOST_IN_ALL + 1)
