"""Every answer is one of the registry's own, errors too: `{"error_code": …, "message": …}`."""

import json
import logging
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException as RoutingError

from eventlib.errors import EventlibError
from eventlib.registry.refusals import Refused, store_failed

V1_JSON = "application/vnd.schemaregistry.v1+json"
MEDIA_TYPES = (V1_JSON, "application/vnd.schemaregistry+json", "application/json")
_LATER = range(50001, 50005)
"""Codes of what is not known, or not possible just now."""
_log = logging.getLogger(__name__)


class Answer(Response):
    """JSON in the form that was asked for; Confluent's own where nothing was."""

    media_type = V1_JSON

    def render(self, content: Any) -> bytes:
        """See Starlette."""
        return json.dumps(content, separators=(",", ":"), ensure_ascii=True).encode()


def answer_errors(app: FastAPI) -> None:
    """Let an app answer every error in the registry's form."""

    async def answer(request: Request, error: Exception) -> Response:
        del request
        refused = refusal_of(error)
        if refused.code == HTTPStatus.INTERNAL_SERVER_ERROR:
            _log.error("something unforeseen", exc_info=error)
        headers = {"WWW-Authenticate": 'Basic realm="schemas"'} if refused.status == HTTPStatus.UNAUTHORIZED else None
        return error_answer(refused, headers)

    for kind in (RequestValidationError, RoutingError, EventlibError, Exception):
        app.add_exception_handler(kind, answer)


def error_answer(refused: Refused, headers: dict[str, str] | None = None) -> Response:
    """Return a refusal as an answer."""
    if refused.code in _LATER:
        headers = {"Retry-After": "1", **(headers or {})}
    return Answer({"error_code": refused.code, "message": refused.message}, refused.status, headers)


def refusal_of(error: Exception) -> Refused:
    """Return what an error means for who has asked."""
    match error:
        case Refused():
            return error
        case RequestValidationError():
            first = error.errors()[0]
            place = ".".join(str(each) for each in first["loc"][1:])
            return Refused(422, 422, f"{first['loc'][0]} {place}: {first['msg']}")
        case RoutingError(status_code=status, detail=detail):
            return Refused(status, status, f"HTTP {status} {detail}")
        case EventlibError():
            return store_failed(str(error))
        case _:
            return Refused(500, 500, "something unforeseen has happened; it was logged")
