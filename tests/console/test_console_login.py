"""Logging in at an OpenID Connect issuer, by code and PKCE."""

import base64
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs

import httpx
import pytest
from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse, RedirectResponse, Response

from eventlib.config.console import ConsoleOptions
from eventlib.console.sessions import LOGIN, SESSION, SessionIdentity
from eventlib.http.serving import Listening
from eventlib.identity import IdentityOptions, public
from eventlib.identity.options import identity_options
from tests.console.browsers import running_console, visiting
from tests.console.parked_rates import parked_log
from tests.console.windows import Window
from tests.issuers import AUDIENCE, SECRET, Issuer, rsa

if TYPE_CHECKING:
    from playwright.async_api import Browser

pytestmark = pytest.mark.asyncio(loop_scope="session")
CLIENT = "console"


@dataclass
class Provider:
    """An issuer that lets everyone in as `ada`, with some roles; `changed` are other claims of its ID tokens."""

    issuer: Issuer
    roles: list[str]
    changed: dict[str, Any] = field(default_factory=dict)
    codes: dict[str, dict[str, list[str]]] = field(default_factory=dict)
    refused: int = 0

    def app(self) -> FastAPI:
        """Return its endpoints."""
        app = FastAPI(docs_url=None, redoc_url=None)

        @app.get("/.well-known/openid-configuration")
        @public
        async def discovery() -> dict[str, str]:
            url = self.issuer.url
            ends = {
                "authorization_endpoint": f"{url}/auth",
                "token_endpoint": f"{url}/token",
                "jwks_uri": f"{url}/keys",
            }
            return {"issuer": url, **ends}

        @app.get("/keys")
        @public
        async def keys() -> dict[str, Any]:
            return {"keys": [key.as_dict(private=False) for key in self.issuer.keys]}

        @app.get("/auth")
        @public
        async def auth(request: Request) -> Response:
            asked = parse_qs(request.url.query)
            code = f"code-{len(self.codes)}"
            self.codes[code] = asked
            return RedirectResponse(f"{asked['redirect_uri'][0]}?code={code}&state={asked['state'][0]}", 303)

        @app.post("/token")
        @public
        async def token(request: Request) -> Response:
            given = parse_qs((await request.body()).decode())
            asked = self.codes.pop(given["code"][0], {})
            proof = base64.urlsafe_b64encode(sha256(given["code_verifier"][0].encode()).digest()).rstrip(b"=").decode()
            if not asked or [proof] != asked["code_challenge"] or given["redirect_uri"] != asked["redirect_uri"]:
                self.refused += 1
                return JSONResponse({"error": "invalid_grant"}, 400)
            about = {"aud": CLIENT, "nonce": asked["nonce"][0], **self.changed}
            return JSONResponse(
                {
                    "access_token": self.issuer.token(roles=self.roles, preferred_username="Ada L."),
                    "id_token": self.issuer.token(**about),
                }
            )

        return app


@asynccontextmanager
async def provided(directory: Path, roles: list[str]) -> AsyncIterator[tuple[Provider, str]]:
    """Serve an issuer, and a console whose people log in there."""
    provider = Provider(Issuer([rsa("one")]), roles)
    with closing(Listening("0", identity=None)) as listening, closing(Listening("0", identity=None)) as free:
        port = int(free.url.rpartition(":")[2])
        free.close()
        provider.issuer.port = int(listening.url.rpartition(":")[2])
        identity = SessionIdentity(identity_options(issuer=provider.issuer.url, audience=AUDIENCE, key=SECRET))
        options = ConsoleOptions.model_validate({"client_id": CLIENT, "url": f"http://127.0.0.1:{port}"})
        async with (
            listening.serve(provider.app()),
            parked_log(directory) as log,
            running_console(log, identity, options, port) as url,
        ):
            yield provider, url


async def test_people_log_in_at_the_issuer_and_come_back_to_their_page(browser: "Browser", tmp_path: Path) -> None:
    async with provided(tmp_path, ["operator"]) as (provider, url), visiting(browser, url) as visit:
        page = await visit.open("/parked?service=rates")
        assert page.url == f"{url}/login?next=/parked%3Fservice%3Drates"
        assert await page.locator("#token").count() == 0
        await page.click("text=Log in with 127.0.0.1")
        await page.wait_for_url(f"{url}/parked?service=rates")
        assert "Ada L." in await page.locator(".who").inner_text()
        cookies = {each.get("name"): each for each in await page.context.cookies()}
        assert cookies[SESSION]["httpOnly"]
        assert cookies[SESSION]["sameSite"] == "Lax"
        assert LOGIN not in cookies
        assert not provider.refused
        visit.asked = [each for each in visit.asked if not each.startswith(provider.issuer.url)]


@asynccontextmanager
async def logging_in(url: str) -> AsyncIterator[Window]:
    """A window on a console that is served, since its issuer sends browsers back to it."""
    async with httpx.AsyncClient(base_url=url, follow_redirects=True) as client:
        yield Window(client)


async def test_those_without_a_role_are_told_so(tmp_path: Path) -> None:
    async with provided(tmp_path, ["customer"]) as (_, url), logging_in(url) as window:
        await window.open("/login/issuer")
        assert "has no role that sees the console" in window.alert
        await window.open("/overview")
        assert window.path == "/login?next=/overview"


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ({"nonce": "another"}, "belongs to another login"),
        ({"sub": "eve"}, "about two people"),
        ({"aud": "another"}, "names another audience"),
    ],
)
async def test_id_tokens_of_another_login_are_refused(tmp_path: Path, changed: dict[str, Any], sentence: str) -> None:
    async with provided(tmp_path, ["operator"]) as (provider, url), logging_in(url) as window:
        provider.changed = changed
        await window.open("/login/issuer")
        assert sentence in window.alert
        assert SESSION not in window.client.cookies


async def test_a_code_of_somebody_else_lets_nobody_in(tmp_path: Path) -> None:
    async with (
        provided(tmp_path, ["operator"]) as (provider, url),
        httpx.AsyncClient() as theirs,
        httpx.AsyncClient() as mine,
    ):
        begun = await theirs.get(f"{url}/login/issuer")
        back = (await theirs.get(begun.headers["location"])).headers["location"]
        own = await mine.get(f"{url}/login/issuer")
        state = parse_qs(httpx.URL(own.headers["location"]).query.decode())["state"][0]
        assert (await mine.get(back)).status_code == 401, "its state is of another browser"
        stolen = httpx.URL(back).copy_set_param("state", state)
        answer = await mine.get(stolen)
        assert answer.status_code == 401
        assert "log in again" in answer.text
        assert provider.refused == 1, "the issuer refuses the code: its verifier is of another browser"
        assert (
            await mine.get(f"{url}/login/callback?code=x&state={state}&iss=https://evil.example")
        ).status_code == 401


async def test_an_issuer_out_of_reach_is_told(tmp_path: Path) -> None:
    identity = SessionIdentity(identity_options(issuer="http://127.0.0.1:9", audience=AUDIENCE, key=SECRET))
    options = ConsoleOptions.model_validate({"client_id": CLIENT, "url": "http://127.0.0.1:8"})
    async with (
        parked_log(tmp_path) as log,
        running_console(log, identity, options) as url,
        httpx.AsyncClient() as client,
    ):
        answer = await client.get(f"{url}/login/issuer", headers={"accept": "text/html"})
        assert answer.status_code == 503
        assert "out of reach" in answer.text
    assert not IdentityOptions().is_configured
