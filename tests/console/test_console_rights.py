"""Who may do what: an auditor finds no way to write, another page makes no browser act, and no text becomes a script."""

import re
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
from eventlib.log.record import Record
from eventlib.operations.acts import acts
from eventlib.operations.parked_commands import request_retries
from eventlib.operations.parked_groups import grouped
from eventlib.queries.parked import parkings
from eventlib.values import now_ms
from tests.console.browsers import Visit, running_console, visiting
from tests.console.parked_rates import logged_in, parked_log

if TYPE_CHECKING:
    from playwright.async_api import Browser

pytestmark = pytest.mark.asyncio(loop_scope="session")
HOSTILE = """<img src=x onerror=alert(1)>"'--></script><script>alert(2)</script>{{7*7}}/javascript:alert(3)"""
TOKEN = re.compile(r'name="form_token" value="([0-9a-f]{64})"')


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


async def cookies_of(visit: Visit) -> dict[str, str]:
    return {each.get("name", ""): each.get("value", "") for each in await visit.context.cookies()}


async def test_an_auditor_finds_no_way_to_write(browser: "Browser", tmp_path: Path) -> None:
    async with parked_log(tmp_path) as log, logged_in(browser, log, tmp_path, Role.AUDITOR) as (visit, page):
        for path in await paths_of(log, "MT"):
            await visit.open(path)
            assert await page.locator("h1").count() == 1, path
            forms = await page.evaluate("[...document.querySelectorAll('form[method=post]')].map(each => each.action)")
            assert forms == [f"{visit.url}/logout"], path
            assert await page.locator("[hx-post],[hx-put],[hx-delete],[formaction]").count() == 0
        (form_token,) = TOKEN.findall(await page.content())
        group = grouped(await parkings(log))[0].fingerprint
        tried = 0
        async with httpx.AsyncClient(base_url=visit.url, cookies=await cookies_of(visit)) as client:
            for template in posts_of(log):
                path = (
                    template.replace("{fingerprint}", group)
                    .replace("{service}", "rates")
                    .replace("{decider}", "quotes")
                )
                path = path.replace("{key:key}", "MT").replace("{event_type}", "RateAsked").replace("{name}", "again")
                if path in {"/login", "/logout"}:
                    continue
                fields = {"form_token": form_token, "reason": "a try", "which": "all", "sure": "3", "field.number": "9"}
                for step in ("send", "preview"):
                    answer = await client.post(path, data={**fields, "step": step})
                    assert answer.status_code == 403, path
                    tried += 1
            for path in (
                "/send/RateAsked",
                "/reruns/new?service=rates",
                "/reset?service=rates",
                "/reset-clock?service=rates",
                "/pause?service=rates",
            ):
                assert (await client.get(path)).status_code == 403
        assert tried == 28
        assert await acts(log) == []


async def test_no_form_of_another_page_or_browser_is_taken(browser: "Browser", tmp_path: Path) -> None:
    async with parked_log(tmp_path) as log, logged_in(browser, log, tmp_path, Role.OPERATOR) as (visit, page):
        await visit.open("/parked/rates/quotes/MT")
        form_token = TOKEN.findall(await page.content())[0]
        cookies, path = await cookies_of(visit), "/parked/rates/quotes/MT/retry"
        whole = {"form_token": form_token, "reason": "a try"}
        async with httpx.AsyncClient(base_url=visit.url, cookies=cookies) as client:
            other = {"origin": "https://evil.example"}
            assert (await client.post(path, data=whole, headers=other)).status_code == 403
            for site in ("cross-site", "same-site"):
                assert (await client.post(path, data=whole, headers={"sec-fetch-site": site})).status_code == 403
            for wrong in ({}, {"form_token": ""}, {"form_token": "0" * 64}):
                assert (await client.post(path, data={"reason": "a try", **wrong})).status_code == 403
            assert (await client.post(path, json=whole)).status_code == 415
            assert (await client.get(path)).status_code == 404
        async with httpx.AsyncClient(base_url=visit.url, cookies={SESSION: cookies[SESSION]}) as client:
            fresh = await client.get("/parked/rates/quotes/MT")
            assert TOKEN.findall(fresh.text)[0] != form_token
            assert (await client.post(path, data=whole)).status_code == 403, "a token counts in its own browser only"
        assert await acts(log) == []
        async with httpx.AsyncClient(base_url=visit.url, cookies=cookies) as client:
            assert (await client.post(path, data=whole)).status_code == 303
        assert [act.by for act in await acts(log)] == ["token:ada"]


async def test_no_text_from_outside_becomes_a_part_of_a_page(browser: "Browser", tmp_path: Path) -> None:
    async with parked_log(tmp_path, [HOSTILE, "other"]) as log:
        headers = (("<script>alert(4)</script>", HOSTILE.encode()),)
        strange = Record(
            "asked", 0, -1, now_ms(), HOSTILE.encode(), b"\x00<b>", id=HOSTILE, type=HOSTILE, source=HOSTILE
        )
        place = await log.port.append([strange.replace(headers=headers, correlation_id=HOSTILE, causation_id=HOSTILE)])
        await request_retries(log, await parkings(log), by=f"os:{HOSTILE}", reason=HOSTILE)
        async with running_console(log) as url, visiting(browser, url) as visit:
            asked = httpx.QueryParams(
                dict.fromkeys(("where", "order_by", "key", "reason", "who", "next", "after"), HOSTILE)
            )
            more = [f"/{page}?{asked}" for page in ("sagas", "parked", "acts", "topics/asked", "login", "overview")]
            quoted = quote(HOSTILE, safe="")
            more += [f"/send/{quoted}", "/send/RateAsked", "/reruns/new?service=rates", f"/reruns/new?service={quoted}"]
            more += [f"/compare?one={quoted}&other={quoted}", f"/compare?one={quoted}&other=other"]
            more += [f"/choreography/arrow?source={quoted[:200]}&target={quoted[:200]}"]
            more += [f"/reset?service=rates&to={quoted[:40]}", f"/reruns/rates/{quoted}"]
            for path in [*await paths_of(log, HOSTILE), f"/record/asked/0/{place[0]}", *more]:
                page = await visit.open(path)
                assert path in more or await page.locator(".empty .big").count() == 0, path  # no page of an error
                await page.evaluate("for (const each of document.querySelectorAll('main details')) each.open = true")
                await visit.settled()
                made = "img[src=x], [onerror], main script, body > script, a[href^=javascript]"
                assert await page.locator(made).count() == 0, path
                assert "49" not in await page.title()
            assert len(visit.asked) > 20


async def test_a_login_leads_to_no_other_site(browser: "Browser", tmp_path: Path) -> None:
    elsewhere = ["https://evil.example", "//evil.example", "/\\evil.example", "\\\\evil.example", "javascript:alert(1)"]
    async with parked_log(tmp_path) as log, logged_in(browser, log, tmp_path, Role.OPERATOR) as (visit, _):
        for each in elsewhere:
            page = await visit.open(f"/login?{httpx.QueryParams(next=each)}")
            assert await page.get_attribute("input[name=next]", "value") == "/"


async def test_only_those_with_a_role_get_in_and_only_by_their_own_token(browser: "Browser", tmp_path: Path) -> None:
    async with parked_log(tmp_path) as log, logged_in(browser, log, tmp_path, Role.OPERATOR) as (visit, page):
        cookie = (await cookies_of(visit))[SESSION]
        async with httpx.AsyncClient(base_url=visit.url) as client:
            for wrong in (
                "",
                "x",
                cookie[:-4] + "AAAA",
                Seals(None).seal(SESSION, {"subject": "eve", "roles": ["admin"]}, 60),
            ):
                answer = await client.get("/parked", headers={"accept": "text/html", "cookie": f"{SESSION}={wrong}"})
                assert answer.status_code == 303
                assert answer.headers["location"] == "/login?next=/parked"
                assert (await client.get("/live", headers={"cookie": f"{SESSION}={wrong}"})).status_code == 401
        await page.click("text=Log out")
        await page.wait_for_url("**/login")
        assert SESSION not in await cookies_of(visit)
        await page.fill("#token", "nothing of the kind, but long enough")
        await page.keyboard.press("Enter")
        await page.locator("[role=alert]", has_text="unknown").wait_for()


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
    async with parked_log(tmp_path) as log, running_console(log) as url, httpx.AsyncClient(base_url=url) as client:
        assert (await client.get("/parked", headers={"host": "evil.example"})).status_code == 421
        assert (await client.get("/parked", headers={"x-forwarded-for": "10.0.0.1"})).status_code in {303, 401}
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
