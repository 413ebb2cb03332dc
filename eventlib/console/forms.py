"""Forms that browsers send: read within a bound, and only those that this console gave."""

from http import HTTPStatus
from typing import Annotated, Any, TypeVar
from urllib.parse import parse_qsl

from fastapi import Depends, Request

from eventlib.console.rendering import Pages
from eventlib.errors import ContractError
from eventlib.ground.body_limit import bounded, compression_of
from eventlib.http.problems import Refusal
from eventlib.operations.act import Act

A = TypeVar("A", bound=Act[Any, Any])
CONTENT_TYPE = "application/x-www-form-urlencoded"
_MOST_BYTES = 1_000_000
_MOST_FIELDS = 2_000
_MOST_REASON = 2_000
_SAFE_SITES = {None, "same-origin", "none"}


class Form:
    """The fields of a form; the values of one name in their order."""

    def __init__(self, fields: list[tuple[str, str]]) -> None:
        self._fields = fields

    def get(self, name: str, default: str = "") -> str:
        """Return a field's first value."""
        return next((value for each, value in self._fields if each == name), default)

    def all(self, name: str) -> list[str]:
        """Return a field's values."""
        return [value for each, value in self._fields if each == name]

    def under(self, prefix: str) -> dict[str, str]:
        """Return the fields whose names begin with a prefix, without it."""
        return {name.removeprefix(prefix): value for name, value in self._fields if name.startswith(prefix)}

    def reason(self) -> str:
        """Return the reason of an act. Raises: ContractError without a reason."""
        found = self.get("reason").strip()
        if not found or len(found) > _MOST_REASON:
            raise ContractError(
                f"give a reason, of up to {_MOST_REASON:,} characters: it is stored on the log with the act"
            )
        return found

    def act(self, kind: type[A], **fields: object) -> A:
        """Return the act that this form asks for: the fields that it has by their names, and these. Raises: ContractError."""
        given = {name: value for name in kind.own_fields() if (value := self.get(name).strip())}
        given |= {"reason": self.reason(), "as_previewed": self.get("as_previewed")}
        return kind.of({**given, **fields})


async def own_form(request: Request) -> Form:
    """Return the form that a request carries.

    Guarantee: it was given by this console, to this browser and this caller, and comes from a page of it.
    Raises: Refusal.
    """
    if request.headers.get("sec-fetch-site") not in _SAFE_SITES:
        raise Refusal(403, "another-origin", "this form comes from a page of another site; nothing was done")
    if compression_of(request) is not None:
        raise Refusal(415, "compressed", "send the form as it is")
    limited = Request(request.scope, bounded(request.receive, _MOST_BYTES, _too_large))
    body = await limited.body()
    try:
        fields = parse_qsl(body.decode(), keep_blank_values=True, max_num_fields=_MOST_FIELDS, errors="strict")
    except ValueError as error:
        raise Refusal(400, "invalid", "the body is no form") from error
    form = Form(fields)
    pages: Pages = request.app.state.pages
    if not pages.is_own_form(request, form.get("form_token")):
        detail = "this form is no longer valid, or comes from elsewhere; nothing was done: go back, reload the page, and send it again"
        raise Refusal(HTTPStatus.FORBIDDEN, "foreign-form", detail)
    return form


def _too_large() -> Refusal:
    return Refusal(413, "too-large", f"a form may have at most {_MOST_BYTES:,} bytes")


OwnForm = Annotated[Form, Depends(own_form)]
"""A parameter of a route's function: the form that was sent."""
