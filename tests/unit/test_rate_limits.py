"""A caller asks for so much work at once, and so much a second; large work is paid for afterwards."""

from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
from fastapi import APIRouter, FastAPI, Request
from pydantic import BaseModel

from eventlib.http import CALLER, answer_problems, caller_of, charge
from eventlib.http.rate_limit import MOST_BUCKETS, MeteredRoute, RateLimits


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


class Order(BaseModel):
    lines: int


def test_a_bucket_is_emptied_at_once_and_filled_at_its_rate() -> None:
    clock = Clock()
    limits = RateLimits(rate=2, burst=4, clock=clock)
    assert [limits.take("ann", "POST /", 1) for _ in range(5)] == [0, 0, 0, 0, pytest.approx(0.5)]
    assert limits.take("bob", "POST /", 1) == limits.take("ann", "GET /", 1) == 0
    clock.now += 0.5
    assert [limits.take("ann", "POST /", 1) for _ in range(2)] == [0, pytest.approx(0.5)]
    assert limits.state("ann", "POST /") == '"work";r=0;t=2'


def test_work_larger_than_a_bucket_is_done_and_paid_for_afterwards() -> None:
    clock = Clock()
    limits = RateLimits(rate=10, burst=100, clock=clock)
    assert limits.take("ann", "/", 1) == 0
    assert limits.take("ann", "/", 5_000, taken=1) == 0
    assert limits.take("ann", "/", 1) == pytest.approx(490.1)
    clock.now += 490.2
    assert limits.take("ann", "/", 1) == 0
    assert limits.take("ann", "/", 5_000) == pytest.approx(9.9)


def test_buckets_of_many_callers_are_bounded() -> None:
    limits = RateLimits(rate=1, burst=1, clock=Clock())
    callers = [str(number) for number in range(MOST_BUCKETS + 100)]
    for caller in callers:
        assert limits.take(caller, "/", 1) == 0
    assert sum("r=0;" in limits.state(caller, "/") for caller in callers) == MOST_BUCKETS, "the others' are full again"


@pytest.fixture
async def client() -> AsyncIterator[httpx.AsyncClient]:
    app = FastAPI()
    app.state.rate_limits = RateLimits(rate=1, burst=10)
    answer_problems(app, "urn:test:problem:")
    routes = APIRouter(route_class=MeteredRoute)

    @routes.post("/orders")
    async def place(request: Request, order: Order) -> dict[str, Any]:
        charge(request, order.lines)
        return {"caller": caller_of(request.scope)}

    app.include_router(routes)

    async def named(scope: Any, receive: Any, send: Any) -> None:
        name = dict(scope.get("headers", ())).get(b"x-name")
        await app({**scope, **({CALLER: name.decode()} if name else {})}, receive, send)

    async with httpx.AsyncClient(transport=httpx.ASGITransport(named), base_url="http://a") as found:
        yield found


async def test_an_order_costs_its_lines_and_a_refusal_names_the_wait(client: httpx.AsyncClient) -> None:
    first = await client.post("/orders", json={"lines": 8})
    assert first.status_code == 200
    assert first.headers["RateLimit-Policy"] == '"work";q=10;w=10'
    assert first.headers["RateLimit"] == '"work";r=2;t=8'
    refused = await client.post("/orders", json={"lines": 8})
    assert refused.status_code == 429
    assert 5 <= int(refused.headers["Retry-After"]) <= 6
    assert refused.headers["RateLimit"].startswith('"work";r=')
    assert refused.json()["type"] == "urn:test:problem:rate-limited"
    assert (await client.post("/orders", json={"lines": 1})).status_code == 200
    assert (await client.post("/orders", content=b"no JSON")).status_code == 429  # before its body is read


async def test_each_caller_has_a_bucket(client: httpx.AsyncClient) -> None:
    names = ["ann", "ann", "bob", None]
    found = [await client.post("/orders", json={"lines": 9}, headers={"X-Name": n} if n else {}) for n in names]
    assert [each.status_code for each in found] == [200, 429, 200, 200]
    assert [found[0].json()["caller"], found[3].json()["caller"]] == ["ann", "127.0.0.1"]
