"""No server is without guards: all are served by one function, which has them whatever its app has."""

import ast
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from hashlib import sha256
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.types import Receive, Scope, Send

import eventlib
from eventlib.cli.schemas_server import _warning
from eventlib.http.limits import HttpLimits
from eventlib.http.registry.service import admit
from eventlib.http.serving import Listening
from eventlib.identity import Identity, IdentityOptions, Principal, Role, add_token, identity_of
from eventlib.registry.errors import Refused
from tests.contract.registry_servers import listening_registry, registry

SOURCES = Path(eventlib.__file__).parent
SERVERS = {
    "cli/_common/log_server.py",  # the admin API, the console, MCP
    "cli/_common/metrics.py",
    "cli/run_process.py",  # an application's API, metrics
    "cli/schemas_server.py",  # the registry
    "live/app.py",
}
SCHEMA = {"schema": json.dumps({"type": "record", "name": "A", "fields": []})}


async def bare(scope: Scope, receive: Receive, send: Send) -> None:
    """An app without any guard, which acts on whatever comes."""
    if scope["type"] == "http":
        size = len(await Request(scope, receive).body())
        await PlainTextResponse(str(size))(scope, receive, send)


@asynccontextmanager
async def served(**options: Any) -> AsyncIterator[httpx.AsyncClient]:
    with closing(Listening("0", limits=HttpLimits(body_bytes=1_000), **options)) as listening:
        async with listening.serve(bare), httpx.AsyncClient(base_url=listening.url) as client:
            yield client


def calls(path: Path) -> set[str]:
    found = (node.func for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call))
    return {each.attr if isinstance(each, ast.Attribute) else getattr(each, "id", "") for each in found}


def test_each_server_is_served_by_the_function_that_has_the_guards() -> None:
    called = {
        str(path.relative_to(SOURCES)): calls(path) for path in SOURCES.rglob("*.py") if "skeleton" not in str(path)
    }
    assert {path for path, names in called.items() if "Listening" in names} == SERVERS
    for server in ("Server", "WithoutSignals", "HTTPServer", "ThreadingHTTPServer", "start_server", "run_app"):
        assert {path for path, names in called.items() if server in names} <= {"http/serving.py"}, server


async def test_an_app_without_guards_gets_no_request_for_another_host_or_from_another_page() -> None:
    async with served() as client:
        assert (await client.post("/", content=b"x" * 1_000)).text == "1000"
        assert (await client.post("/", headers={"Origin": str(client.base_url).rstrip("/")})).status_code == 200
        for headers, status in (
            ({"Host": "evil.example"}, 421),
            ({"Host": "evil.example:8081"}, 421),
            ({"Origin": "https://evil.example"}, 403),
            ({"Origin": "null"}, 403),
        ):
            assert (await client.post("/", headers=headers)).status_code == status
        assert (await client.get("/", headers={"Host": "evil.example"})).status_code == 421


async def test_an_app_without_guards_gets_no_large_body() -> None:
    async def chunks() -> AsyncIterator[bytes]:
        for _ in range(11):
            yield b"x" * 100

    async with served() as client:
        assert (await client.post("/", content=b"x" * 1_001)).status_code == 413
        assert (await client.post("/", content=chunks())).status_code == 413


FOREIGN = [
    ({"Host": "evil.example"}, 421),
    ({"Origin": "https://evil.example"}, 403),
    ({"Origin": "null"}, 403),
    ({"X-Forwarded-For": "203.0.113.9"}, 401),
    ({"Forwarded": "for=203.0.113.9"}, 401),
    ({"Via": "1.1 proxy"}, 401),
]


@pytest.mark.parametrize(("headers", "status"), FOREIGN)
async def test_the_registry_refuses_what_no_client_of_this_machine_sends(headers: dict[str, str], status: int) -> None:
    async with registry() as client:
        for method, path, body in (
            ("POST", "/subjects/a/versions", SCHEMA),
            ("PUT", "/config", {"compatibility": "NONE"}),
            ("DELETE", "/subjects/a", None),
            ("POST", "/subjects/a", SCHEMA),
        ):
            answer = await client.request(method, path, json=body, headers=headers)
            assert (answer.status_code, answer.json()["error_code"]) == (status, status if status != 401 else 401)
        assert (await client.get("/subjects")).json() == []
        assert (await client.get("/config")).json() == {"compatibilityLevel": "FULL_TRANSITIVE"}


async def test_the_registrys_server_has_the_guards_too() -> None:
    with listening_registry() as url:
        async with httpx.AsyncClient(base_url=url) as client:
            assert (await client.post("/subjects/a/versions", json=SCHEMA)).status_code == 200
            for headers, status in FOREIGN:
                answer = await client.post("/subjects/b/versions", json=SCHEMA, headers=headers)
                assert (answer.status_code, answer.json()["error_code"]) == (status, status)


async def test_without_a_role_nothing_is_read() -> None:
    """An issuer vouches for people who have no role here."""
    principal = Principal(subject="7f0c", source="oidc", roles=frozenset())
    identity = Identity(IdentityOptions(), own={sha256(b"token").digest(): principal})
    headers = [(b"authorization", b"Bearer token"), (b"host", b"registry")]
    for method, path in (("GET", "/subjects"), ("POST", "/subjects/a")):
        scope = {"type": "http", "method": method, "path": path, "headers": headers, "client": ("127.0.0.1", 1)}
        with pytest.raises(Refused, match="has no role") as refused:
            await admit(identity, Request(scope))
        assert refused.value.status == 403


def test_the_start_says_who_may_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "everyone on this machine may write" in _warning()
    monkeypatch.setenv("EVENTLIB_IDENTITY_INSECURE", "true")
    assert "everyone who reaches it may write" in _warning()
    monkeypatch.delenv("EVENTLIB_IDENTITY_INSECURE")
    add_token(tmp_path / "tokens.json", "ops", [Role.OPERATOR])
    monkeypatch.setenv("EVENTLIB_IDENTITY_TOKENS_FILE", str(tmp_path / "tokens.json"))
    monkeypatch.setenv("EVENTLIB_IDENTITY_KEY", "ab" * 16)
    assert identity_of(IdentityOptions()).is_configured
    assert _warning() == ""
