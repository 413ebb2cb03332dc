"""The operators' HTTP API: nothing without the token; what it is asked for is done once, and refused where it does not fit."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from eventlib import EventLog, open_log
from eventlib.admin.api import create_admin
from eventlib.cli import run
from eventlib.errors import WiringError
from eventlib.operations.acts import acts
from tests.apps.small_shop import Ordered, Outside, make_shop, record_of, settle
from tests.commands import said
from tests.connections import opened_from_here, silent
from tests.integration.reopening import events

TOKEN, NEXT_TOKEN = "x" * 32, "y" * 32
SHOP = make_shop(set())
KNOWN = {"Authorization": f"Bearer {TOKEN}"}


@pytest.fixture
async def log(tmp_path: Path) -> AsyncIterator[EventLog]:
    """A log with two parked keys of a shop whose bug is mended, and a parked effect."""
    url = f"sqlite:///{tmp_path}/log.db"
    async with open_log(url, make_shop({"a", "b/c\nd"})) as log:
        for order_id in ("a", "a", "b/c\nd", "refused"):
            await log.publish(Ordered(order_id=order_id, cents=1))
        await settle(log, Outside(refuses={"refused"}))
    async with open_log(url, make_shop(set())) as log:
        yield log


@pytest.fixture
async def admin(log: EventLog) -> AsyncIterator[httpx.AsyncClient]:
    transport = httpx.ASGITransport(create_admin(log, TOKEN, NEXT_TOKEN))
    async with httpx.AsyncClient(transport=transport, base_url="http://admin", headers=KNOWN) as client:
        yield client


async def test_nothing_is_told_or_done_without_the_token(admin: httpx.AsyncClient, log: EventLog) -> None:
    for headers in (
        {},
        {"Authorization": "Bearer wrong"},
        {"Authorization": f"Basic {TOKEN}"},
        {"Authorization": "Bearer é"},
    ):
        admin.headers = httpx.Headers(headers, encoding="utf-8")
        for method, path in [
            ("GET", "/status"),
            ("GET", "/parked"),
            ("GET", "/parked/orders/order/a"),
            ("POST", "/events/Ordered"),
            ("POST", "/parked/retry"),
            ("POST", "/parked/orders/order/a/retry"),
            ("POST", "/parked/orders/order/a/edit"),
            ("POST", "/parked/orders/order/a/discard"),
        ]:
            answer = await admin.request(
                method, path, json={"by": "ada", "reason": "a test"} if method == "POST" else None
            )
            assert answer.status_code == 401, (method, path)
            assert answer.headers["www-authenticate"] == "Bearer"
    assert (await admin.get("/docs")).status_code == (await admin.get("/openapi.json")).status_code == 401
    assert (await admin.get("/healthz")).status_code == 503
    assert await log.port.end("orders.control", 0) == 0


async def test_what_is_parked_is_listed_and_shown(admin: httpx.AsyncClient) -> None:
    found = (await admin.get("/parked", params={"reason_matches": "bug", "limit": 1})).json()
    assert (found["count"], len(found["parked"])) == (2, 1)
    shown = (await admin.get("/parked/orders/order/a")).json()
    assert (shown["waiting"], [each["data"]["cents"] for each in shown["inputs"]]) == (2, [1, 1])
    assert "a bug in the handler" in shown["traceback"]
    assert (await admin.get("/parked/orders/order/b/c%0Ad")).json()["key"] == "b/c\nd"
    assert (await admin.get("/parked/orders/order/z")).status_code == 404
    assert (await admin.get("/parked/nobody/order/a")).status_code == 404
    assert (await admin.get("/parked", params={"reason_matches": "("})).status_code == 422
    assert (await admin.get("/parked", params={"reason_matches": "((a|b|g|u| )+)+$x"})).json()["count"] == 0
    assert len((await admin.get("/status")).json()["parked"]) == 3


async def test_a_key_is_meant_before_the_effects_of_it(admin: httpx.AsyncClient, log: EventLog) -> None:
    await log.port.append([record_of(log, Ordered(order_id="refused", cents=2)).replace(value=b"\x89PNG")])
    await settle(log)
    effect, key = [each for each in (await admin.get("/parked")).json()["parked"] if each["key"] == "refused"]
    assert (effect["effect"], key["effect"]) == ("ChargeAsked", None)
    assert (await admin.get("/parked/orders/order/refused")).json()["waiting"] == key["waiting"] == 1
    assert (await admin.get(f"/parked/orders/order/{effect['id']}")).json()["effect"] == "ChargeAsked"
    edit = [
        "parked",
        "edit",
        "order",
        "refused",
        "--data",
        '{"order_id": "refused", "cents": 3}',
        "--dry-run",
        "--log",
        log.port.url,
    ]
    assert "order" in said(*edit, "--app", "tests.integration.test_admin:SHOP")


async def test_an_edit_a_discard_and_retries(admin: httpx.AsyncClient, log: EventLog) -> None:
    wrong = await admin.post("/parked/orders/order/a/edit", json={"by": "ada", "set": {"cents": "many"}})
    assert (wrong.status_code, wrong.headers["content-type"]) == (422, "application/problem+json")
    assert "field cents" in wrong.json()["detail"]
    for body in ({"by": 7}, {"by": "ada", "colour": "red"}):
        assert (await admin.post("/parked/orders/order/a/edit", json=body)).status_code == 422
    assert (await admin.post("/parked/orders/order/a/discard", json={"by": "ada", "reason": ""})).status_code == 422
    edited = await admin.post(
        "/parked/orders/order/a/edit", json={"by": "ada", "set": {"cents": 50}, "reason": "a typo"}
    )
    assert (edited.status_code, edited.json()["asked"]["topic"]) == (202, "orders.control")
    seen = await admin.post("/parked/orders/order/a/retry", json={"dry_run": True})
    other = {"by": "ada", "reason": "a test order", "as_previewed": seen.json()["as_previewed"]}
    refused = await admin.post("/parked/orders/order/b/c%0Ad/discard", json=other)
    assert (refused.status_code, "it was about something else" in refused.json()["detail"]) == (422, True)
    given_up = {"by": "ada", "reason": "a test order"}
    assert (await admin.post("/parked/orders/order/b/c%0Ad/discard", json=given_up)).status_code == 202
    for expected in ({"asked": 1, "asked_already": 0}, {"asked": 0, "asked_already": 1}):
        assert (await admin.post("/parked/retry?reason_matches=card", json={"by": "bob"})).json() == expected
    await settle(log)
    assert (await admin.get("/parked")).json() == {"count": 0, "parked": []}
    assert sorted(event.cents for event in await events(log, "charges") if hasattr(event, "cents")) == [1, 1, 50]


async def test_an_event_is_sent_with_who_and_why(admin: httpx.AsyncClient, log: EventLog) -> None:
    whole = {"data": {"order_id": "new", "cents": 1}, "reason": "by phone"}
    for wrong, named in (
        ({"reason": " "}, "reason"),
        ({"reason": ""}, "reason"),
        ({"data": {"order_id": "new", "cents": "many"}}, "cents"),
        ({"colour": "red"}, "colour"),
    ):
        answer = await admin.post("/events/Ordered", json={**whole, **wrong})
        assert answer.status_code == 422
        assert named in answer.text
    assert (await admin.post("/events/Nothing", json=whole)).status_code == 404
    fact = await admin.post("/events/Charged", json={"data": {"order_id": "a", "by": "me"}, "reason": "a test"})
    assert (fact.status_code, "--force" in fact.text, "is a fact that decider" in fact.text) == (422, False, True)
    assert await acts(log) == []
    once = {**whole, "idempotency_key": "k1"}
    first, second = [await admin.post("/events/Ordered", json=once) for _ in range(2)]
    assert (first.status_code, first.json()["type"], first.json()["key"]) == (201, "Ordered", "new")
    assert second.json()["offset"] == first.json()["offset"] + 1
    await settle(log)
    (act,) = await acts(log)
    assert (act.what, act.about, act.reason) == ("send", "Ordered new", "by phone")
    assert act.by.startswith("token:admin-token")


async def test_a_short_token_is_refused(log: EventLog) -> None:
    for tokens in (["short"], [TOKEN, ""], []):
        with pytest.raises(WiringError, match="takes 16 or more"):
            create_admin(log, *tokens)


async def test_each_of_several_tokens_is_taken_while_one_replaces_another(admin: httpx.AsyncClient) -> None:
    for token, expected in ((TOKEN, 200), (NEXT_TOKEN, 200), (TOKEN + NEXT_TOKEN, 401), (f"{TOKEN},{NEXT_TOKEN}", 401)):
        answer = await admin.get("/parked", headers={"Authorization": f"Bearer {token}"})
        assert answer.status_code == expected


def test_it_is_off_without_a_token(
    filled: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("EVENTLIB_ADMIN_TOKEN", raising=False)
    assert run(["admin", "--http", "0", "--log", filled]) == 1
    assert "the admin API is off: set EVENTLIB_ADMIN_TOKEN" in capsys.readouterr().err


async def test_what_the_log_does_not_tell_is_not_answered_with_no(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = opened_from_here(monkeypatch)
    async with open_log(f"sqlite:///{tmp_path}/log.db", make_shop({"a"})) as log:
        await log.publish(Ordered(order_id="a", cents=1))
        await settle(log)
        transport = httpx.ASGITransport(create_admin(log, TOKEN), raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url="http://admin", headers=KNOWN) as client:
            known = [
                await client.get("/status"),
                await client.get("/parked"),
                await client.get("/parked/orders/order/a"),
            ]
            assert [each.status_code for each in known] == [200, 200, 200]
            with silent(opened["log.db"][0]):
                paths = ("/status", "/parked", "/parked/orders/order/a", "/healthz")
                asked = [await client.get(path) for path in paths]
                asked += [await client.post(f"/parked/orders/order/a/{act}", json=body) for act, body in ACTS.items()]
                asked += [await client.post("/parked/retry", json={"by": "ada"})]
            opened["log.db"][0].execute("PRAGMA query_only=1")  # what can only be read is told, and nothing is promised
            asked += [await client.post(f"/parked/orders/order/a/{act}", json=body) for act, body in ACTS.items()]
            opened["log.db"][0].execute("PRAGMA query_only=0")
            for each in asked:
                assert (each.status_code, each.headers.get("retry-after")) == (503, "1"), (each.url, each.text)
            assert (await client.get("/parked")).json()["count"] == 1
    assert await end_of_control(tmp_path) == 0


ACTS: dict[str, dict[str, Any]] = {
    "retry": {"by": "ada"},
    "edit": {"by": "ada", "set": {"cents": 2}},
    "discard": {"by": "ada", "reason": "a test"},
}


async def end_of_control(directory: Path) -> int:
    async with open_log(f"sqlite:///{directory}/log.db", make_shop(set())) as log:
        return sum([await log.port.end("orders.control", partition) for partition in range(8)])
