"""Who may do what: an auditor finds no way to write, another page makes no browser act, and no text becomes a script."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

import httpx
import pytest
from fastapi.routing import iter_route_contexts

from eventlib import EventLog
from eventlib.config.console import ConsoleOptions
from eventlib.console.app import create_console
from eventlib.console.sessions import SESSION, Seals, SessionIdentity
from eventlib.errors import WiringError
from eventlib.http.serving import Listening
from eventlib.identity import Role
from eventlib.identity.options import IdentityOptions
from eventlib.model.record import Record
from eventlib.operations.acts import acts
from eventlib.operations.parked_groups import grouped
from eventlib.queries.parked import parkings
from eventlib.values import now_ms
from tests.console.browsers import running_console, visiting
from tests.console.parked_rates import parked_log
from tests.console.windows import opened, signed_in
from tests.operators import request_retries

if TYPE_CHECKING:
    from playwright.async_api import Browser

pytestmark = pytest.mark.asyncio(loop_scope="session")
HOSTILE = """<img src=x onerror=alert(1)>"'--></script><script>alert(2)</script>{{7*7}}/javascript:alert(3)"""


async def paths_of(log: EventLog, key: str) -> list[str]:
    """Return an address of each kind of page."""
    quoted = httpx.URL("http://x/").copy_with(path=f"/{key}").raw_path.decode()[1:].replace("/", "%2F")
    found = grouped(await parkings(log))
    return [
        "/overview", "/sagas", "/parked", "/choreography", "/topics", "/topics/asked", "/topics/rates.control", "/acts",
        "/reruns", "/deployment", f"/saga/{quoted}", f"/saga/{quoted}?view=tree&scale=time", f"/saga/{quoted}?view=effects",
        f"/parked/rates/quotes/{quoted}", f"/parked/group/{found[0].fingerprint}",
    ]  # fmt: skip


def posts_of(log: EventLog) -> list[str]:
    """Return the path of each route that writes."""
    app = create_console(log, SessionIdentity(IdentityOptions()))
    return [str(each.path) for each in iter_route_contexts(app.routes) if "POST" in (each.methods or ())]


async def test_an_auditor_finds_no_way_to_write(tmp_path: Path) -> None:
    async with parked_log(tmp_path) as log, signed_in(log, tmp_path, Role.AUDITOR) as window:
        for path in await paths_of(log, "MT"):
            await window.open(path)
            assert len(window.page.all("h1")) == 1, path
            parts = [window.page, *[await window.part(each) for each in window.page.all("[hx-get]")]]
            forms = [each["action"] for part in parts for each in part.all("form[method=post]")]
            assert set(forms) == {"/logout"}, path
            writing = ("[hx-post]", "[hx-put]", "[hx-delete]", "[formaction]")
            assert [each for part in parts for way in writing for each in part.all(way)] == [], path
        form_token = window.page.one("[name=form_token]")["value"]
        group = grouped(await parkings(log))[0].fingerprint
        tried = 0
        for template in posts_of(log):
            path = template.replace("{fingerprint}", group).replace("{service}", "rates").replace("{decider}", "quotes")
            path = path.replace("{key:key}", "MT").replace("{event_type}", "RateAsked").replace("{name}", "again")
            if path in {"/login", "/logout"}:
                continue
            fields = {"form_token": form_token, "reason": "a try", "which": "all", "sure": "3", "field.number": "9"}
            for step in ("send", "preview"):
                answer = await window.client.post(path, data={**fields, "step": step})
                assert answer.status_code == 403, path
                tried += 1
        for path in (
            "/send/RateAsked",
            "/reruns/new?service=rates",
            "/reset?service=rates",
            "/reset-clock?service=rates",
            "/pause?service=rates",
        ):
            assert (await window.client.get(path)).status_code == 403
        assert tried == 34
        assert await acts(log) == []


async def test_no_form_of_another_page_or_browser_is_taken(tmp_path: Path) -> None:
    async with parked_log(tmp_path) as log, signed_in(log, tmp_path, Role.OPERATOR) as window:
        await window.open("/parked/rates/quotes/MT")
        form_token = window.page.all("[name=form_token]")[0]["value"]
        path, whole = "/parked/rates/quotes/MT/retry", {"form_token": form_token, "reason": "a try"}
        client = window.client
        other = {"origin": "https://evil.example"}
        assert (await client.post(path, data=whole, headers=other)).status_code == 403
        for site in ("cross-site", "same-site"):
            assert (await client.post(path, data=whole, headers={"sec-fetch-site": site})).status_code == 403
        for wrong in ({}, {"form_token": ""}, {"form_token": "0" * 64}):
            assert (await client.post(path, data={"reason": "a try", **wrong})).status_code == 403
        assert (await client.post(path, json=whole)).status_code == 415
        assert (await client.get(path)).status_code == 404
        cookies, client.cookies = client.cookies, {SESSION: client.cookies[SESSION]}
        fresh = await window.open("/parked/rates/quotes/MT")
        assert fresh.all("[name=form_token]")[0]["value"] != form_token
        assert (await client.post(path, data=whole)).status_code == 403, "a token counts in its own browser only"
        assert await acts(log) == []
        client.cookies = cookies
        assert (await client.post(path, data=whole, follow_redirects=False)).status_code == 303
        assert [act.by for act in await acts(log)] == ["token:ada"]


@asynccontextmanager
async def hostile_log(directory: Path) -> AsyncIterator[tuple[EventLog, str]]:
    """A log with markup and scripts in all that comes from outside, and the address of a record of them."""
    async with parked_log(directory, [HOSTILE, "other"]) as log:
        headers = (("<script>alert(4)</script>", HOSTILE.encode()),)
        strange = Record(
            "asked", 0, -1, now_ms(), HOSTILE.encode(), b"\x00<b>", id=HOSTILE, type=HOSTILE, source=HOSTILE
        )
        place = await log.port.append([strange.replace(headers=headers, correlation_id=HOSTILE, causation_id=HOSTILE)])
        await request_retries(log, await parkings(log), by=f"os:{HOSTILE}", reason=HOSTILE)
        yield log, f"/record/asked/0/{place[0]}"


async def test_no_text_from_outside_becomes_a_part_of_a_page(tmp_path: Path) -> None:
    async with hostile_log(tmp_path) as (log, record), opened(log) as window:
        asked = httpx.QueryParams(
            dict.fromkeys(("where", "order_by", "key", "reason", "who", "next", "after"), HOSTILE)
        )
        more = [f"/{page}?{asked}" for page in ("sagas", "parked", "acts", "topics/asked", "login", "overview")]
        quoted = quote(HOSTILE, safe="")
        more += [f"/send/{quoted}", "/send/RateAsked", "/reruns/new?service=rates", f"/reruns/new?service={quoted}"]
        more += [f"/compare?one={quoted}&other={quoted}", f"/compare?one={quoted}&other=other"]
        more += [f"/choreography/arrow?source={quoted[:200]}&target={quoted[:200]}"]
        more += [f"/reset?service=rates&to={quoted[:40]}", f"/reruns/rates/{quoted}"]
        shown = 0
        for path in [*await paths_of(log, HOSTILE), record, *more]:
            await window.open(path)
            assert path in more or window.page.all(".empty .big") == [], path  # no page of an error
            assert "49" not in window.page.one("head title").text
            for part in (window.page, *[await window.part(each) for each in window.page.all("[hx-get]")]):
                shown += HOSTILE in part.text
                assert part.all("main script") == [], path
                assert [each for each in part.all("img") if not each["src"].startswith("/static/")] == [], path
                ways = [each.attributes.get(name, "/") for each in part for name in ("href", "action", "formaction")]
                assert [each for each in ways if not each.startswith(("/", "#", "?"))] == [], path
        assert shown > 15, "it stands on many pages, as text"


async def test_no_script_of_the_console_makes_a_part_of_a_page_from_a_text(browser: "Browser", tmp_path: Path) -> None:
    async with hostile_log(tmp_path) as (log, _), running_console(log) as url, visiting(browser, url) as visit:
        quoted = quote(HOSTILE, safe="")
        group = grouped(await parkings(log))[0].fingerprint
        kept = json.dumps([{"name": HOSTILE, "where": HOSTILE, "order_by": HOSTILE}])
        await (await visit.open("/sagas")).evaluate("kept => localStorage.setItem('filters', kept)", kept)
        for path in ("/sagas", f"/saga/{quoted}", f"/parked/group/{group}", "/choreography"):
            page = await visit.open(path)
            await page.evaluate("for (const each of document.querySelectorAll('main details')) each.open = true")
            await visit.settled()
            made = "img[src=x], [onerror], main script, body > script, a[href^=javascript]"
            assert await page.locator(made).count() == 0, path


async def test_a_login_leads_to_no_other_site(tmp_path: Path) -> None:
    elsewhere = ["https://evil.example", "//evil.example", "/\\evil.example", "\\\\evil.example", "javascript:alert(1)"]
    async with parked_log(tmp_path) as log, signed_in(log, tmp_path, Role.OPERATOR) as window:
        for each in elsewhere:
            await window.open(f"/login?{httpx.QueryParams(next=each)}")
            assert window.page.one("input[name=next]")["value"] == "/"


async def test_only_those_with_a_role_get_in_and_only_by_their_own_token(tmp_path: Path) -> None:
    async with parked_log(tmp_path) as log, signed_in(log, tmp_path, Role.OPERATOR) as window:
        client, cookie = window.client, window.client.cookies[SESSION]
        stranger = Seals(None).seal(SESSION, {"subject": "eve", "roles": ["admin"]}, 60)
        for wrong in ("", "x", cookie[:-4] + "AAAA", stranger):
            headers = {"accept": "text/html", "cookie": f"{SESSION}={wrong}"}
            answer = await client.get("/parked", headers=headers, follow_redirects=False)
            assert (answer.status_code, answer.headers["location"]) == (303, "/login?next=/parked")
            assert (await client.get("/live", headers={"cookie": f"{SESSION}={wrong}"})).status_code == 401
        await window.open("/parked")
        await window.send("Log out")
        assert window.path == "/login"
        assert SESSION not in client.cookies
        await window.send("Log in", {"token": "nothing of the kind, but long enough"})
        assert "unknown" in window.alert


async def test_sessions_end_and_are_sealed_for_one_purpose() -> None:
    now = 1_000.0
    seals = Seals(b"k" * 32, lambda: now)
    text = seals.seal("one", {"a": 1}, 60)
    assert seals.open("one", text) == {"a": 1}
    assert seals.open("other", text) is None
    assert Seals(b"l" * 32, lambda: now).open("one", text) is None
    assert Seals(b"k" * 32, lambda: now + 61).open("one", text) is None
    for wrong in ("", "a.b", text[:-2], text + "A", "é"):
        assert seals.open("one", wrong) is None


async def test_without_identity_only_this_machine_is_served(tmp_path: Path) -> None:
    identity = SessionIdentity(IdentityOptions())
    with pytest.raises(WiringError, match="no identity is configured"):
        Listening("0.0.0.0:0", identity=identity)
    async with parked_log(tmp_path) as log, opened(log) as window:
        client = window.client
        assert (await client.get("/parked", headers={"host": "evil.example"})).status_code == 421
        assert (
            await client.get("/parked", headers={"x-forwarded-for": "10.0.0.1"}, follow_redirects=False)
        ).status_code in {303, 401}
        answer = await client.get("/parked")
        assert "script-src 'self'" in answer.headers["content-security-policy"]
        assert "unsafe" not in answer.headers["content-security-policy"]
        assert answer.headers["cache-control"] == "no-store"
        for cookie in answer.headers.get_list("set-cookie"):
            assert "HttpOnly" in cookie
            assert "SameSite=lax" in cookie


async def test_a_login_at_an_issuer_needs_the_issuer() -> None:
    with pytest.raises(ValueError, match="client_id and url go together"):
        ConsoleOptions(client_id="console")
