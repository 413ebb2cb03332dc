"""A browser's window without scripts: what it shows is the console's HTML, asked for in this process."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from time import monotonic
from urllib.parse import urlencode

import httpx
from fastapi import FastAPI

from eventlib import EventLog
from eventlib.analysis.connectors import Connector
from eventlib.config.console import ConsoleOptions
from eventlib.console.app import create_console
from eventlib.console.browser import POLICY
from eventlib.console.reading import records_to_go
from eventlib.console.sessions import SessionIdentity
from eventlib.identity import IdentityOptions, Role, add_token
from eventlib.identity.options import identity_options
from tests.console.markup import FIELDS, Part, read
from tests.issuers import SECRET

OWN = "http://127.0.0.1:9000"
_PAGE = {"accept": "text/html,application/xhtml+xml", "sec-fetch-site": "same-origin"}
_WAITS_S = 60
Fields = Mapping[str, str | Sequence[str]]


class Window:
    """A window on a console; it keeps cookies, follows links and redirects, and sends forms as they stand in its page."""

    def __init__(self, client: httpx.AsyncClient, console: FastAPI | None = None) -> None:
        self.client = client
        self.console = console
        self.status = 0
        self.source = ""
        self.page = Part("", {})
        self._url = httpx.URL(client.base_url)

    @property
    def path(self) -> str:
        """Where it is, from the console's root."""
        return self._url.raw_path.decode()

    @property
    def text(self) -> str:
        """What is written in the page, its bar left out."""
        return self.page.one("main").text

    @property
    def alert(self) -> str:
        """What the page says that is wrong."""
        return self.page.one("main [role=alert]").text

    async def open(self, path: str) -> Part:
        """Open a page."""
        return self._show(await self.client.get(path, headers=_PAGE))

    async def follow(self, name: str) -> Part:
        """Follow the first link of a text or an accessible name."""
        links = {
            each.attributes.get("aria-label", each.text): each["href"] for each in reversed(self.page.all("a[href]"))
        }
        return await self.open(links[name])

    async def part(self, element: Part) -> Part:
        """Return the part of the page that an element asks for by itself, as htmx does."""
        answer = await self.client.get(element["hx-get"], headers={**_PAGE, "hx-request": "true"})
        assert answer.status_code == 200, answer.text
        return read(answer.text)

    async def send(self, button: str, fields: Fields | None = None, more: Sequence[Part] = ()) -> Part:
        """Send the form of the only button of a text, after its fields were given these values.

        The values of a box or a radio button are those that are chosen. `more` are parts that the page has loaded since.
        """
        return self._show(await self.client.send(self.request(button, fields or {}, more)))

    def request(self, button: str, fields: Fields, more: Sequence[Part] = ()) -> httpx.Request:
        """Return what a browser sends for the only button of a text whose form has these fields."""
        parts = [each for part in (self.page, *more) for each in part]
        found = [(each, each.above("form")) for each in self.page.all("button") if each.text == button]
        forms = [(each, form, _fields(form, parts)) for each, form in found if form is not None]
        fit = [(each, form, own) for each, form, own in forms if fields.keys() <= {field["name"] for field in own}]
        assert len(fit) == 1, f"{len(fit)} of {button}, of {len(forms)}, have {[*fields]}, in: {self.page.text}"
        pressed, form, own = fit[0]
        values = _values(own, fields)
        if "name" in pressed.attributes:
            values.append((pressed["name"], pressed["value"]))
        action = pressed.attributes.get("formaction") or form.attributes.get("action") or self.path
        encoded = urlencode(values)
        if form.attributes.get("method", "get") == "get":
            return self.client.build_request("GET", f"{action}?{encoded}", headers=_PAGE)
        kind = "application/x-www-form-urlencoded"
        origin = f"{self._url.scheme}://{self._url.netloc.decode()}"
        headers = {**_PAGE, "content-type": kind, "origin": origin, "referer": str(self._url)}
        return self.client.build_request("POST", action, content=encoded, headers=headers)

    async def until(self, selector: str, has: str = "") -> Part:
        """Open the page again until it has an element of a selector and with a text, and return that."""
        deadline = monotonic() + _WAITS_S
        while monotonic() < deadline:
            if found := self.page.all(selector, has):
                return found[0]
            await asyncio.sleep(0.05)
            await self.open(self.path)
        raise AssertionError(f"no {selector} with {has!r}, but: {self.text}")

    def _show(self, answer: httpx.Response) -> Part:
        assert answer.headers["content-security-policy"] == POLICY
        self._url, self.status, self.source = answer.url, answer.status_code, answer.text
        self.page = read(answer.text)
        loaded = [each["src"] for each in self.page if "src" in each.attributes]
        loaded += [each["href"] for each in self.page.all("link")]
        assert [each for each in loaded if not each.startswith("/static/")] == [], (
            "a page loads what is the console's own"
        )
        return self.page


def _fields(form: Part, parts: Sequence[Part]) -> list[Part]:
    """Return the fields of a form, in their order."""
    named = [each for each in parts if each.tag in FIELDS and "name" in each.attributes]
    return [each for each in named if _form_of(each, form, parts) is form]


def _values(own: Sequence[Part], given: Fields) -> list[tuple[str, str]]:
    """Return what a form sends of its fields. Raises: AssertionError for an empty one that is required, and a fixed one."""
    found = list[tuple[str, str]]()
    for each in own:
        name, about = each["name"], each.attributes
        if about.get("type") in {"checkbox", "radio"}:
            chosen = [given[name]] if isinstance(given.get(name), str) else given.get(name)
            if "checked" in about if chosen is None else about.get("value", "on") in chosen:
                found.append((name, about.get("value", "on")))
            continue
        value = given.get(name, _value(each))
        assert isinstance(value, str)
        assert value or "required" not in about, f"{name} is required"
        assert value == _value(each) or not {"readonly", "hidden"} & {*about, about.get("type")}, (
            f"{name} cannot be changed"
        )
        found.append((name, value))
    return found


def _form_of(field: Part, form: Part, parts: Sequence[Part]) -> Part | None:
    named = field.attributes.get("form")
    if named is None:
        return field.above("form")
    return form if form.attributes.get("id") == named and form in parts else None


def _value(field: Part) -> str:
    """Return what a field has before somebody changes it."""
    if field.tag == "input":
        return field.attributes.get("value", "")
    if field.tag == "textarea":
        return "".join(each for each in field.inside if isinstance(each, str)).removeprefix("\n")
    options = field.all("option")
    chosen = next((each for each in options if "selected" in each.attributes), options[0])
    return chosen.attributes.get("value", chosen.text)


@asynccontextmanager
async def opened(
    log: EventLog,
    identity: SessionIdentity | None = None,
    options: ConsoleOptions | None = None,
    connectors: Sequence[Connector] = (),
) -> AsyncIterator[Window]:
    """Make the console on a log in this process, by default without identity, and give a window on it."""
    app = create_console(log, identity or SessionIdentity(IdentityOptions()), options, connectors=connectors)
    async with app.router.lifespan_context(app):
        await caught_up(app)
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url=OWN, follow_redirects=True) as client:
            yield Window(client, app)


async def caught_up(console: FastAPI) -> None:
    """Wait until a console that has begun has all of the log in its index."""
    async with asyncio.timeout(_WAITS_S):
        while await records_to_go(console.state.index):
            await asyncio.sleep(0.01)


@asynccontextmanager
async def signed_in(log: EventLog, directory: Path, *roles: Role, back: str = "/parked") -> AsyncIterator[Window]:
    """Give a window on a console with an identity, after a login with these roles."""
    text, identity = token_of(directory, *roles)
    async with opened(log, identity) as window:
        await window.open(back)
        assert window.path == f"/login?next={back}"
        await window.send("Log in", {"token": text})
        assert (window.path, window.status) == (back, 200)
        yield window


def token_of(directory: Path, *roles: Role) -> tuple[str, SessionIdentity]:
    """Return a token of somebody with these roles, and the identity that knows it."""
    file = directory / "tokens.json"
    text, _ = add_token(file, "ada", roles)
    return text, SessionIdentity(identity_options(tokens_file=file, key=SECRET))
