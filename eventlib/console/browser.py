"""What browsers get around every page: the policy of what it may load, the way to the login, and errors as pages."""

from collections.abc import Callable
from http import HTTPStatus
from typing import Any
from urllib.parse import quote

from pydantic_core import from_json
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from eventlib.http.problems import MEDIA_TYPE

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)
"""What a page may load and send, and where: nothing that is not the console's own, and no script or style in a page."""
_HEADERS = {
    "content-security-policy": POLICY,
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "referrer-policy": "same-origin",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
}
Page = Callable[[Request, int, str], Response]


class Browser:
    """Adds the headers of every answer; for pages it answers 401 by the login, and problems by `page`."""

    def __init__(self, app: ASGIApp, page: Page) -> None:
        self._app = app
        self._page = page

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """See ASGI."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        wants_page = "text/html" in Headers(scope=scope).get("accept", "") or is_htmx(scope)
        held = list[Message]()

        async def answer(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(raw=message["headers"])
                for name, value in _HEADERS.items():
                    headers.setdefault(name, value)
                if not scope["path"].startswith("/static/"):
                    headers["cache-control"] = "no-store"
                if wants_page and headers.get("content-type", "").startswith(MEDIA_TYPE):
                    held.append(message)
                    return
            if held:
                held.append(message)
                if not message.get("more_body", False):
                    shown = self._instead(Request(scope), held)
                    held.clear()
                    await shown(scope, receive, answer)
                return
            await send(message)

        await self._app(scope, receive, answer)

    def _instead(self, request: Request, held: list[Message]) -> Response:
        status = held[0]["status"]
        if status == HTTPStatus.UNAUTHORIZED and "authorization" not in request.headers:
            return to_login(request)
        detail = _detail(b"".join(each.get("body", b"") for each in held[1:]))
        return self._page(request, status, detail)


def is_htmx(scope: Scope) -> bool:
    """Return whether a part of a page is asked for."""
    return any(name == b"hx-request" for name, _ in scope["headers"])


def to_login(request: Request) -> Response:
    """Return the way to the login, and back to the page that was asked for."""
    if is_htmx(request.scope):
        return Response(status_code=HTTPStatus.NO_CONTENT, headers={"HX-Refresh": "true"})
    asked = request.url.path + (f"?{request.url.query}" if request.url.query else "")
    back = asked if request.method == "GET" else "/"
    return RedirectResponse(f"/login?next={quote(back, safe='/')}", HTTPStatus.SEE_OTHER)


def own_path(text: str) -> str:
    """Return a path to go back to, if it is one of this server; else its root: no link leads to another site by it."""
    is_own = text.startswith("/") and not text.startswith(("//", "/\\")) and text.isprintable() and "\\" not in text
    return text if is_own else "/"


def _detail(body: bytes) -> str:
    try:
        found: Any = from_json(body)
        return str(found["detail"])
    except (ValueError, KeyError, TypeError):
        return ""
