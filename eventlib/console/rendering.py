"""Pages from templates: everything that comes from outside is escaped, wherever a template puts it."""

from collections.abc import Mapping
from datetime import UTC, datetime
from enum import Enum
from hashlib import sha256
from importlib.resources import files
from secrets import token_urlsafe
from typing import Any
from urllib.parse import urlencode

from jinja2 import Environment, PackageLoader, StrictUndefined
from pydantic_core import to_json
from starlette.requests import Request
from starlette.responses import HTMLResponse

from eventlib.analysis.diagram.svg import stylesheet
from eventlib.console.sessions import FORMS, Seals, cookie_of, set_cookie
from eventlib.http.gate import PRINCIPAL
from eventlib.http.paths import segment_of
from eventlib.identity.principal import Principal, Role
from eventlib.json_form import json_of
from eventlib.values import escaped, from_ms

_PACKAGE = files("eventlib") / "console"
ASSETS = {
    "console.css": (_PACKAGE / "static" / "console.css", "text/css"),
    "console.js": (_PACKAGE / "static" / "console.js", "text/javascript"),
    "diagram.css": (_PACKAGE / "static" / "diagram.css", "text/css"),
    "theme.js": (_PACKAGE / "static" / "theme.js", "text/javascript"),
    "icon.svg": (_PACKAGE / "static" / "icon.svg", "image/svg+xml"),
    "htmx.min.js": (_PACKAGE / "htmx" / "htmx.min.js", "text/javascript"),
}
"""Every file that a page loads: where it is, and what it is."""
_SHORT = 48


class Pages:
    """Renders the pages of one console; `title` is the application's name, `seals` bind forms to a browser."""

    def __init__(self, title: str, seals: Seals) -> None:
        self._seals = seals
        self._contents = {name: path.read_bytes() for name, (path, _) in ASSETS.items()}
        self._contents["diagram.css"] = f"{stylesheet('.diagram svg')}\n".encode() + self._contents["diagram.css"]
        self._environment = Environment(
            loader=PackageLoader("eventlib.console"),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self._environment.filters |= FILTERS
        self._environment.globals |= {"title": title, "asset": self._asset, "path": path_of}

    def content(self, name: str) -> bytes:
        """Return a file that pages load. Raises: KeyError."""
        return self._contents[name]

    def render(self, request: Request, template: str, status_code: int = 200, **about: Any) -> HTMLResponse:
        """Return a page, or a part of one, as its caller may see it."""
        caller: Principal | None = request.scope.get(PRINCIPAL)
        bound = cookie_of(request.scope["headers"], FORMS)
        fresh = None if bound else token_urlsafe(24)
        content = self._environment.get_template(template).render(
            caller=caller,
            may_act=caller is not None and caller.has(Role.OPERATOR),
            form_token=self._seals.token(_bound_to(bound or fresh or "", caller)),
            here=request.url,
            **about,
        )
        response = HTMLResponse(content, status_code)
        if fresh is not None:
            set_cookie(response, FORMS, fresh, None, secure=is_secure(request))
        return response

    def is_own_form(self, request: Request, token: str) -> bool:
        """Return whether a form is one that this console gave to the browser and the caller that send it."""
        bound, caller = cookie_of(request.scope["headers"], FORMS), request.scope.get(PRINCIPAL)
        expected = self._seals.token(_bound_to(bound or "", caller))
        return bool(bound) and same_text(token, expected)

    def _asset(self, name: str) -> str:
        return f"/static/{name}?v={sha256(self._contents[name]).hexdigest()[:12]}"


def same_text(one: str, other: str) -> bool:
    """Compare texts in a time that does not tell where they differ."""
    return sha256(one.encode("utf-8", "replace")).digest() == sha256(other.encode()).digest()


def is_secure(request: Request) -> bool:
    """Return whether the browser came by TLS."""
    return request.url.scheme == "https"


def _bound_to(cookie: str, caller: Principal | None) -> str:
    return f"{cookie}\x1f{'' if caller is None else caller.by}"


def path_of(*parts: object, **query: object) -> str:
    """Return the address of a page of the console; parts and values may have any character."""
    way = "/".join(segment_of(str(part)) for part in parts)
    asked = urlencode({name: value for name, value in query.items() if value not in (None, "", [], ())}, doseq=True)
    return f"/{way}?{asked}" if asked else f"/{way}"


# --- how values are shown


def clock(at: datetime | int | None) -> str:
    """Return a time with its date and milliseconds, in UTC."""
    if at is None:
        return ""
    found = from_ms(at) if isinstance(at, int) else at.astimezone(UTC)
    return f"{found:%Y-%m-%d %H:%M:%S}.{found.microsecond // 1000:03}"


def lasting(milliseconds: float | None) -> str:
    """Return a duration for a person, in its largest two units."""
    if milliseconds is None:
        return ""
    ms = round(milliseconds)
    if ms < 10_000:  # noqa: PLR2004  below, milliseconds say more
        return f"{ms:,} ms"
    seconds = ms / 1000
    for unit, length, less, below in (("d", 86_400, "h", 3_600), ("h", 3_600, "min", 60), ("min", 60, "s", 1)):
        if seconds >= 2 * length:
            whole, rest = divmod(int(seconds), length)
            return f"{whole:,} {unit} {rest // below} {less}" if rest // below else f"{whole:,} {unit}"
    return f"{seconds:.1f} s"


def ago(at: datetime | None) -> str:
    """Return how long ago a time was, or in how long it comes."""
    if at is None:
        return ""
    seconds = (datetime.now(UTC) - at).total_seconds()
    shown = lasting(max(1, abs(seconds)) // 1 * 1000) if abs(seconds) < 10 else lasting(abs(seconds) * 1000)  # noqa: PLR2004
    shown = f"{abs(seconds):.0f} s" if abs(seconds) < 10 else shown  # noqa: PLR2004  no milliseconds that change at each look
    return f"{shown} ago" if seconds >= 0 else f"in {shown}"


def plain(value: object) -> str:
    """Return a value as one line of text."""
    match value:
        case None:
            return "–"  # noqa: RUF001  a dash for what is not there
        case str():
            return escaped(value)
        case Enum():
            return plain(value.value)
        case datetime():
            return clock(value)
        case bool() | int() | float():
            return str(value)
        case _:
            return escaped(json(value, indent=None))


def short(value: object) -> str:
    """Return a value as text that fits in a line with others."""
    if isinstance(value, (list, tuple, set, frozenset, dict)):
        return f"[{len(value)}]"
    text = plain(value)
    return text if len(text) <= _SHORT else f"{text[: _SHORT - 1]}…"


def json(value: object, indent: int | None = 2) -> str:
    """Return a value as JSON for a person."""
    return to_json(json_of(value), indent=indent).decode()


def facts(values: Mapping[str, object]) -> list[tuple[str, str]]:
    """Return the fields that say something, as names and short texts."""
    return [(name, short(value)) for name, value in values.items() if value is not None and value not in ("", (), [])]


def text(value: bytes | None) -> str:
    """Return bytes as text on one line, with a sign in place of what is none."""
    return "" if value is None else escaped(value.decode("utf-8", "replace"))


def words(name: str) -> str:
    """Return a name in snake case as people write it: `order_cancelled` is `Order cancelled`."""
    spaced = escaped(name).replace("_", " ").strip()
    return spaced[:1].upper() + spaced[1:]


FILTERS = {
    "ago": ago,
    "clock": clock,
    "facts": facts,
    "json": json,
    "lasting": lasting,
    "number": lambda count: f"{count:,}",
    "plain": plain,
    "short": short,
    "text": text,
    "words": words,
}
