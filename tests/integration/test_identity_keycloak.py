"""The order API with Keycloak as its identity provider: logins, roles, keys, clocks, revocation, and an outage."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from time import time
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from eventlib.config.console import ConsoleOptions
from eventlib.console.sessions import SessionIdentity
from eventlib.identity import Identity, IdentityOptions
from eventlib.identity.options import identity_options
from services.order.api import create_app
from services.order.index import OrderIndex
from tests.console.browsers import CHROMIUM, running_browser, running_console
from tests.console.parked_rates import parked_log
from tests.integration.api_shop import open_shop, serving, wanted
from tests.integration.tcp_way import Way
from tests.issuers import part
from tests.keycloak import Keycloak
from tests.ports import free_port
from tests.realms import API, AUDIENCE, PASSWORD, ROLES, TOKEN_LIVES_S, WEB, Realm, Tokens, realm_of

if TYPE_CHECKING:
    from playwright.async_api import Page

pytestmark = [pytest.mark.heavy, pytest.mark.extended]
KEY = "00112233445566778899aabbccddeeff"
LEEWAY_S = 60
KEYS_COUNT_S = 300
"""For how long the issuer's keys count, as `IssuerKeys` documents it."""
Serve = Callable[..., Any]


class Clock:
    """The time, and what a server's clock is ahead of it."""

    def __init__(self) -> None:
        self.ahead_s = 0.0

    def __call__(self) -> float:
        return time() + self.ahead_s


@pytest.fixture(scope="module")
def realm(keycloak: Keycloak) -> Iterator[Realm]:
    """A realm whose users and keys no test changes."""
    with realm_of(keycloak) as found:
        yield found


@pytest.fixture(scope="module")
def changed(keycloak: Keycloak) -> Iterator[Realm]:
    """A realm of which each test takes what no other test needs."""
    with realm_of(keycloak) as found:
        yield found


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
async def serve(tmp_path: Path, clock: Clock) -> AsyncIterator[Serve]:
    """Serve the order API, as a realm's, with further settings."""
    async with AsyncExitStack() as open_now:
        shop = await open_now.enter_async_context(open_shop(tmp_path))

        @asynccontextmanager
        async def api(realm: Realm, port: int | None = None, **more: Any) -> AsyncIterator[httpx.AsyncClient]:
            given: dict[str, Any] = {
                "issuer": realm.issuer(port),
                "audience": AUDIENCE,
                "key": KEY,
            } | more
            fixed = {"leeway_s": LEEWAY_S, "introspection_s": given.pop("introspection_s", 30.0)}
            options: type[IdentityOptions] = type("Impatient", (IdentityOptions,), fixed)
            identity = Identity(options(**given), clock)
            async with serving(create_app(shop.log, None, OrderIndex(shop.log), identity)) as client:
                yield client

        yield api


def introspecting(realm: Realm, for_s: float) -> dict[str, Any]:
    """Return the settings that ask Keycloak whether a token was revoked."""
    options: dict[str, Any] = {
        "introspection_url": realm.introspection_url,
        "client_id": API,
        "client_secret": realm.secret,
    }
    return {**options, "introspection_s": for_s}


async def listed(client: httpx.AsyncClient, token: str | Tokens) -> httpx.Response:
    """Ask for orders, which every role but `monitor` may."""
    text = token if isinstance(token, str) else token["access_token"]
    return await client.get("/orders", headers={"Authorization": f"Bearer {text}"})


async def status(client: httpx.AsyncClient, tokens: Tokens) -> int:
    return (await listed(client, tokens)).status_code


async def refusal(client: httpx.AsyncClient, tokens: Tokens, code: int = 401) -> str:
    answer = await listed(client, tokens)
    assert answer.status_code == code, answer.text
    assert tokens["access_token"] not in answer.text
    sentence: str = answer.json()["detail"]
    return sentence


async def test_each_role_of_a_realm_is_a_role_of_the_shop(realm: Realm, serve: Serve) -> None:
    async with serve(realm) as client:
        for role in ROLES:
            assert await status(client, realm.login(role)) == (403 if role == "monitor" else 200), role
        assert (await client.get("/orders")).status_code == 401


async def test_a_customer_orders_for_itself_and_refreshes_its_token(realm: Realm, serve: Serve) -> None:
    tokens = realm.login("customer")
    own = {name: value for name, value in wanted().items() if name != "customer_id"}
    async with serve(realm) as client:
        first = await client.post("/orders", json=own, headers={"Authorization": f"Bearer {tokens['access_token']}"})
        assert first.status_code == 202, first.text
        assert first.json()["customer_id"] == realm.user_id("customer")
        answer = await listed(client, realm.refresh(tokens))
        assert [each["order_id"] for each in answer.json()["orders"]] == [first.json()["order_id"]]


async def test_only_access_tokens_count(realm: Realm, serve: Serve) -> None:
    tokens = realm.login("admin")
    async with serve(realm) as client:
        assert "another audience" in await refusal(client, {"access_token": tokens["id_token"]})
        assert "not one of the issuer's" in await refusal(client, {"access_token": tokens["refresh_token"]})


async def test_a_token_of_another_realm_is_refused(realm: Realm, changed: Realm, serve: Serve) -> None:
    async with serve(realm) as client:
        assert "a key that the issuer does not have" in await refusal(client, changed.login("auditor"))


async def test_a_role_that_was_taken_is_gone_after_a_refresh(changed: Realm, serve: Serve) -> None:
    tokens = changed.login("operator")
    async with serve(changed) as client:
        assert await status(client, tokens) == 200
        changed.take_role("operator", "operator")
        assert await status(client, tokens) == 200  # a token counts as it was signed
        assert "does not have" in await refusal(client, changed.refresh(tokens), 403)


async def test_a_user_who_is_disabled_is_refused_when_the_answer_is_too_old(
    changed: Realm, serve: Serve, clock: Clock
) -> None:
    tokens = changed.login("shop")
    async with serve(changed, **introspecting(changed, 30)) as asking, serve(changed) as trusting:
        assert await status(asking, tokens) == await status(trusting, tokens) == 200
        changed.disable("shop")
        assert await status(asking, tokens) == 200  # known for 30 seconds
        clock.ahead_s = 31
        assert await refusal(asking, tokens) == "the token was revoked"
        assert await status(trusting, tokens) == 200  # until it expires
        clock.ahead_s = TOKEN_LIVES_S + LEEWAY_S + 1
        assert "has expired" in await refusal(trusting, tokens)


async def test_a_session_that_has_ended_and_a_revoked_token_are_refused_at_once(changed: Realm, serve: Serve) -> None:
    async with serve(changed, **introspecting(changed, 0)) as client:
        for end in (lambda _: changed.log_out("auditor"), changed.revoke):
            tokens = changed.login("auditor")
            assert await status(client, tokens) == 200
            end(tokens["access_token"])
            assert await refusal(client, tokens) == "the token was revoked"


async def test_a_wrong_secret_of_the_introspection_refuses_no_token(realm: Realm, serve: Serve) -> None:
    async with serve(realm, **introspecting(realm, 30) | {"client_secret": "another"}) as client:
        answer = await listed(client, realm.login("shop"))
        assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")


async def test_keys_are_rotated(changed: Realm, serve: Serve, clock: Clock) -> None:
    before = changed.login("customer")
    async with serve(changed) as client:
        assert await status(client, before) == 200
        name = changed.add_key()
        clock.ahead_s = 10  # the keys were fetched just now
        after = changed.login("customer")
        assert await status(client, after) == 200  # an unknown key is asked for
        assert await status(client, before) == 200
        changed.remove_keys_but(name)
        clock.ahead_s = 10 + KEYS_COUNT_S - 5
        assert await status(client, before) == 200
        clock.ahead_s = 10 + KEYS_COUNT_S + 1
        assert "a key that the issuer does not have" in await refusal(client, before)
        assert await status(client, after) == 200


async def test_a_clock_that_is_wrong_is_reported(realm: Realm, serve: Serve, clock: Clock) -> None:
    tokens = realm.login("customer")
    async with serve(realm) as client:
        for ahead_s, sentence in ((-300.0, "iat is in the future"), (300.0 + LEEWAY_S + 1, "has expired")):
            clock.ahead_s = ahead_s
            found = await refusal(client, tokens)
            assert sentence in found
            assert "compare the clocks of the issuer and of this server" in found
        for clock.ahead_s in (5.0 - LEEWAY_S, LEEWAY_S - 5.0, TOKEN_LIVES_S + LEEWAY_S - 60.0):
            assert await status(client, tokens) == 200


async def test_while_keycloak_is_away_known_keys_count_and_nothing_unknown_is_refused(
    realm: Realm, serve: Serve, clock: Clock
) -> None:
    way = Way(realm.keycloak.port)
    async with serve(realm, way.port) as client:
        async with way:
            await way.open()
            known = await asyncio.to_thread(realm.login, "customer", way.port)
            assert await status(client, known) == 200
        for clock.ahead_s in (0.0, 120.0, 240.0):
            assert await status(client, known) == 200
            unknown = {"access_token": _with_another_kid(known["access_token"])}
            if clock.ahead_s:
                answer = await listed(client, unknown)
                assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
        async with serve(realm, way.port) as fresh:
            answer = await listed(fresh, known)
            assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
            assert (await fresh.get("/orders")).status_code == 401  # it lacks a token, whatever Keycloak does


async def test_keycloak_that_hangs_keeps_one_request_waiting(realm: Realm, serve: Serve, clock: Clock) -> None:
    tokens = realm.login("customer")
    async with serve(realm) as client:
        assert await status(client, tokens) == 200
        clock.ahead_s = 290  # soon they have to be fetched again
        with realm.keycloak.paused():
            assert await status(client, tokens) == 200
            clock.ahead_s = KEYS_COUNT_S + 1
            assert await status(client, tokens) == 200
        assert realm.keycloak.memory_bytes < 600_000_000


def _with_another_kid(token: str) -> str:
    return ".".join([part({"alg": "RS256", "typ": "JWT", "kid": "unknown"}), *token.split(".")[1:]])


@pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium here: `make setup-browser` installs it")
async def test_an_operator_logs_in_to_the_console_and_a_customer_does_not(realm: Realm, tmp_path: Path) -> None:
    port = free_port()
    identity = SessionIdentity(identity_options(issuer=realm.issuer(), audience=AUDIENCE, key=KEY))
    options = ConsoleOptions.model_validate({"client_id": WEB, "url": f"http://127.0.0.1:{port}"})
    async with (
        parked_log(tmp_path) as log,
        running_console(log, identity, options, port) as url,
        running_browser() as browser,
    ):
        page = await browser.new_page()
        await log_in(page, f"{url}/parked?service=rates", "operator")
        await page.wait_for_url(f"{url}/parked?service=rates")
        assert "operator" in await page.locator(".who").inner_text()
        other = await browser.new_page()
        await log_in(other, f"{url}/sagas", "customer")
        await other.wait_for_url(f"{url}/login/callback?*")
        assert "has no role that sees the console" in await other.locator("main").inner_text()


async def log_in(page: "Page", where: str, user: str) -> None:
    """Open a page of the console, and log in as a person does, on Keycloak's own page."""
    await page.goto(where)
    await page.click("text=Log in with 127.0.0.1")
    await page.fill("#username", user)
    await page.fill("#password", PASSWORD)
    await page.click("#kc-login")
