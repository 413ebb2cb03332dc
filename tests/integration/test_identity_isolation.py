"""What one customer learns of another's orders, which apps do not start, and what is read of a body before the caller is known."""

import asyncio
import json
import socket
import time
from collections import defaultdict
from statistics import median
from typing import Any

import httpx
import pytest
import uvicorn
from fastapi import FastAPI

from eventlib.errors import WiringError
from eventlib.identity import Principal, Role, allow, guard, public
from services.order.api import create_app
from services.order.index import OrderIndex
from tests.integration.api_shop import Shop, place, serving, wanted
from tests.integration.callers import headers_of, identity

OTHER_KEY = "ffeeddccbbaa99887766554433221100"
READ_BYTES = 100_000
ROUNDS = 150


async def ordered(api: httpx.AsyncClient, caller: str, key: str | None = None) -> str:
    """Place an order as a caller, and return its id."""
    api.headers.update(headers_of(caller))
    own = {name: value for name, value in wanted().items() if name != "customer_id"}
    return str((await place(api, own, key=key))["order_id"])


PATHS = (
    ("GET", "/orders/{}"),
    ("GET", "/orders/{}/timeline"),
    ("GET", "/orders/{}/events"),
    ("POST", "/orders/{}/cancel"),
)


async def test_a_foreign_order_is_answered_as_one_that_is_not_there(api: httpx.AsyncClient) -> None:
    foreign, unknown = await ordered(api, "owner"), "0123456789abcdef0123"
    assert len(foreign) == len(unknown)
    seconds = defaultdict[tuple[str, str], list[float]](list)
    stranger = headers_of("stranger")
    for number in range(ROUNDS):
        for method, path in PATHS:
            found = list[httpx.Response]()
            for order_id in (foreign, unknown) if number % 2 else (unknown, foreign):
                began = time.perf_counter()
                answer = await api.request(method, path.format(order_id), headers=stranger)
                seconds[path, order_id].append(time.perf_counter() - began)
                assert answer.status_code == 404
                found.append(answer)
            assert _shape(found[0], foreign, unknown) == _shape(found[1], foreign, unknown)
    for _, path in PATHS:
        of_foreign, of_unknown = median(seconds[path, foreign]), median(seconds[path, unknown])
        assert 1 / 3 < of_foreign / of_unknown < 3, f"{path}: {of_foreign * 1e3:.2f} and {of_unknown * 1e3:.2f} ms"


def _shape(answer: httpx.Response, *ids: str) -> tuple[object, ...]:
    text = answer.text
    for order_id in ids:
        text = text.replace(order_id, "ID")
    return answer.status_code, text, {name: text for name, text in answer.headers.items() if name != "date"}


async def test_cancelling_a_foreign_order_does_nothing(api: httpx.AsyncClient, shop: Shop) -> None:
    shop.world.charged.clear()
    order_id = await ordered(api, "owner")
    assert (await api.post(f"/orders/{order_id}/cancel", headers=headers_of("stranger"))).status_code == 404
    assert (await api.get(f"/orders/{order_id}")).json()["cancellation"] == "none"
    shop.world.charged.set()


async def test_an_idempotency_key_is_its_callers_own(api: httpx.AsyncClient, shop: Shop) -> None:
    first = await ordered(api, "owner", "same")
    ids = {caller: await ordered(api, caller, "same") for caller in ("owner", "stranger")}
    assert ids["owner"] == first
    async with serving(
        create_app(shop.log, None, OrderIndex(shop.log, shop.directory / "other.db"), identity(OTHER_KEY))
    ) as other:
        ids |= {f"other {caller}": await ordered(other, caller, "same") for caller in ("owner", "stranger")}
    assert len(set(ids.values())) == 4


@pytest.mark.parametrize("separator", ["\x1f", "\0", " ", ":"])
def test_no_two_callers_have_keys_that_are_put_together_alike(separator: str) -> None:
    known = identity()
    first, second = (Principal(subject=each, source="oidc", roles=frozenset()) for each in ("a", f"a{separator}b"))
    assert known.scoped(first, f"b{separator}c") != known.scoped(second, "c")


def _app_without_rule() -> FastAPI:
    app = FastAPI(docs_url=None, redoc_url=None)

    @app.get("/known")
    @public
    async def known() -> None: ...

    @app.get("/orders/{order_id}/secret")
    async def forgotten(order_id: str) -> None: ...

    @app.post("/also")
    async def also() -> None: ...

    guard(app, identity())
    return app


async def test_an_app_with_a_route_without_a_rule_does_not_start() -> None:
    sent = list[Any]()

    async def receive() -> Any:
        return {"type": "lifespan.startup"}

    async def send(message: Any) -> None:
        sent.append(message)

    with pytest.raises(WiringError, match=r"GET /orders/\{order_id\}/secret, POST /also"):
        await _app_without_rule()({"type": "lifespan", "asgi": {"version": "3.0"}, "state": {}}, receive, send)
    assert [each["type"] for each in sent] == ["lifespan.startup.failed"]
    assert "GET /orders/{order_id}/secret" in sent[0]["message"]


async def test_a_server_ends_instead_of_serving_it() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        server = uvicorn.Server(uvicorn.Config(_app_without_rule(), log_level="critical"))
        async with asyncio.timeout(30):
            with pytest.raises(SystemExit):
                await server.serve([listening])
        assert not server.started


@pytest.mark.parametrize("framing", ["Content-Length: 50000000", "Transfer-Encoding: chunked"])
@pytest.mark.parametrize("caller", ["none", "auditor"])
async def test_a_body_is_not_read_before_the_caller_is_known(api: httpx.AsyncClient, framing: str, caller: str) -> None:
    reader, writer = await asyncio.open_connection(api.base_url.host, api.base_url.port)
    lines = [f"{name}: {text}" for name, text in headers_of(caller).items()]
    head = ["POST /orders HTTP/1.1", "Host: 127.0.0.1", "Content-Type: application/json", framing, *lines, "", ""]
    writer.write("\r\n".join(head).encode())
    if "chunked" in framing:
        writer.write(f"{READ_BYTES:x}\r\n".encode() + b" " * READ_BYTES)
    else:
        writer.write(b" " * READ_BYTES)
    async with asyncio.timeout(30):
        status = await reader.readline()
    writer.transport.abort()
    expected = {b"401", b"413"} if caller == "none" else {b"403", b"413"}
    assert status.split()[1] in expected, status


async def test_what_is_refused_was_not_received() -> None:
    app = FastAPI(docs_url=None, redoc_url=None)

    @app.post("/")
    @allow(Role.SHOP)
    async def take(body: dict[str, Any]) -> None:
        del body

    guard(app, identity())

    async def receive() -> Any:
        raise AssertionError("the body was read")

    for caller, kind, status in (
        ("none", "application/json", 401),
        ("auditor", "application/json", 403),
        ("shop", "text/plain", 415),
    ):
        sent = list[Any]()

        async def send(message: Any, sent: list[Any] = sent) -> None:
            sent.append(message)

        given = {"Content-Type": kind, "Content-Length": "50000000", "Host": "127.0.0.1", **headers_of(caller)}
        headers = [(name.lower().encode(), text.encode()) for name, text in given.items()]
        scope = {"type": "http", "method": "POST", "path": "/", "query_string": b"", "headers": headers}
        await app({**scope, "client": ("127.0.0.1", 1), "scheme": "http", "root_path": ""}, receive, send)
        assert sent[0]["status"] == status
        assert json.loads(sent[1]["body"])["status"] == status
