"""A body that is wrong in thousands of places is answered shortly by every server, and is its caller's work."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest
from fastapi import APIRouter, FastAPI
from pydantic import BaseModel, ConfigDict

from eventlib import open_log
from eventlib.admin.api import create_admin
from eventlib.ground.strict_json import JsonRefused, decode_json
from eventlib.http import StrictRoute, answer_problems
from eventlib.http.rate_limit import MeteredRoute, RateLimits
from tests.apps.small_shop import make_shop
from tests.contract.registry_servers import registry

TOKEN = "a-token-of-this-test"  # noqa: S105  no secret
UNKNOWN = json.dumps({f"unknown{number:06d}": 1 for number in range(40_000)}).encode()
WRONG = json.dumps({"lines": ["x"] * 100_000}).encode()
LONG = json.dumps({"u" * 800_000: 1}).encode()
SOME = json.dumps({f"unknown{number}": 1 for number in range(100)}).encode()
JSON = {"content-type": "application/json"}


class Order(BaseModel):
    model_config = ConfigDict(extra="forbid")

    lines: list[int]


def shop(limits: RateLimits | None, route_class: Any = MeteredRoute) -> FastAPI:
    app = FastAPI()
    if limits is not None:
        app.state.rate_limits = limits
    answer_problems(app, "urn:test:problem:")
    routes = APIRouter(route_class=route_class)

    @routes.post("/orders")
    async def place(order: Order) -> int:
        return len(order.lines)

    app.include_router(routes)
    return app


def client_of(app: Any) -> httpx.AsyncClient:
    return httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://shop", headers=JSON)


@asynccontextmanager
async def admin() -> AsyncIterator[httpx.AsyncClient]:
    async with open_log("memory://", make_shop(set())) as log, client_of(create_admin(log, TOKEN)) as client:
        client.headers["authorization"] = f"Bearer {TOKEN}"
        yield client


@pytest.mark.parametrize("body", [UNKNOWN, WRONG, LONG, SOME], ids=["unknown", "wrong", "long", "some"])
async def test_an_answer_about_a_wrong_body_is_short(body: bytes) -> None:
    async with client_of(shop(None)) as api, client_of(shop(None, StrictRoute)) as strict, admin() as operator:
        for client, path in ((api, "/orders"), (strict, "/orders"), (operator, "/parked/retry")):
            answer = await client.post(path, content=body)
            assert (answer.status_code, answer.headers["content-type"]) == (422, "application/problem+json")
            assert len(answer.content) < 8_000
            assert 1 <= len(answer.json()["errors"]) <= 20
    async with registry() as client:
        answer = await client.post("/subjects/x/versions", content=body)
        assert answer.status_code == 422
        assert len(answer.content) < 2_000


async def test_a_wrong_body_says_how_much_is_wrong() -> None:
    async with client_of(shop(None)) as client:
        answer = (await client.post("/orders", content=UNKNOWN)).json()
        assert answer["detail"] == "body body: 40,001 values or fields are wrong or not known"
        few = (await client.post("/orders", json={"lines": [1, "x"], "surprise": 1})).json()
        assert [each["field"] for each in few["errors"]] == ["lines[1]", "surprise"]


@pytest.mark.parametrize("body", [UNKNOWN, WRONG, SOME], ids=["unknown", "wrong", "some"])
async def test_a_wrong_body_is_its_callers_work(body: bytes) -> None:
    async with client_of(shop(RateLimits(rate=0.001, burst=5))) as client:
        assert (await client.post("/orders", content=body)).status_code == 422
        assert (await client.post("/orders", json={"lines": []})).status_code == 429


def test_a_member_that_is_there_twice_is_found_in_one_pass() -> None:
    """Which was a pass for each member: a minute of the loop for a body of a megabyte."""

    class Counted(str):
        compared = 0
        __slots__ = ()

        def __eq__(self, other: object) -> bool:
            Counted.compared += 1
            return str.__eq__(self, other)

        __hash__ = str.__hash__

    from eventlib.ground.strict_json import _members

    names = [Counted(number) for number in range(5_000)]
    with pytest.raises(JsonRefused, match="'4999' is there twice"):
        _members([*((name, 1) for name in names), (Counted(4_999), 2)])
    assert Counted.compared < 50_000
    with pytest.raises(JsonRefused, match="field 'a' is there twice"):
        decode_json('{"b": 1, "a": 1, "a": 2}')
