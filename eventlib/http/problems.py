"""Every error that the API answers is a problem (RFC 9457), and names the field that it is about."""

import json
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, HTTPException, Request, Response
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ConfigDict, Field
from starlette.exceptions import HTTPException as RoutingError
from starlette.routing import compile_path

from eventlib.errors import EventlibError, LogCorrupt, LogDenied, LogReadOnly, RetryableError
from eventlib.ground.body_limit import RefusedBody, RefusedJson, charge
from eventlib.ground.pydantic_errors import MOST_ERRORS
from eventlib.queries.projection import ProjectionBehind

MEDIA_TYPE = "application/problem+json"
RETRY_AFTER_S = 1
_ERRORS_OF_A_UNIT = 20
_MOST_NAME, _MOST_MESSAGE = 200, 1_000


class FieldError(BaseModel):
    """One thing that is wrong, and where."""

    place: str = Field(serialization_alias="in", description="`body`, `query`, `path` or `header`.")
    field: str = Field(description="For instance `lines[0].quantity`.")
    message: str


class Problem(BaseModel):
    """A problem as RFC 9457 has it; `errors` and other members are extensions."""

    model_config = ConfigDict(
        extra="allow",
        json_schema_extra={
            "examples": [
                {
                    "type": "urn:example:problem:invalid",
                    "title": "Unprocessable Entity",
                    "status": 422,
                    "detail": "body lines[0].quantity: Input should be greater than or equal to 1",
                    "errors": [
                        {
                            "in": "body",
                            "field": "lines[0].quantity",
                            "message": "Input should be greater than or equal to 1",
                        }
                    ],
                }
            ]
        },
    )

    type: str = Field(description="Which kind of problem this is; `about:blank`: just the status.")
    title: str
    status: int
    detail: str
    errors: list[FieldError] = []


class Refusal(HTTPException):
    """Ends a request with a problem; `kind` is the last part of its type, `extra` are further members."""

    def __init__(
        self,
        status: int,
        kind: str,
        detail: str,
        *,
        errors: Sequence[FieldError] = (),
        headers: Mapping[str, str] | None = None,
        extra: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(status, detail, None if headers is None else dict(headers))
        self.kind = kind
        self.errors = errors
        self.extra = extra or {}


def refused_field(place: str, field: str, message: str, kind: str = "invalid") -> Refusal:
    """Return the refusal of one field's value."""
    error = FieldError(place=place, field=field, message=message)
    return Refusal(422, kind, f"{place} {field}: {message}", errors=[error])


def try_later(kind: str, detail: str, extra: Mapping[str, Any] | None = None) -> Refusal:
    """Return the refusal of what may succeed in a while."""
    return Refusal(503, kind, detail, headers={"Retry-After": str(RETRY_AFTER_S)}, extra=extra)


def index_behind(age_s: float) -> Refusal:
    """Return the refusal of a read on an index that is too old."""
    return try_later("index-behind", f"the index is more than {age_s:g} s old: what it does not have may be there")


def problem(refusal: Refusal, app: FastAPI | None) -> Response:
    """Return a refusal as an app's answer; without types of the app's own it is one of HTTP's."""
    types = None if app is None else getattr(app.state, "problem_types", None)
    content = {
        "type": f"{types}{refusal.kind}" if refusal.kind and types else "about:blank",
        "title": HTTPStatus(refusal.status_code).phrase,
        "status": refusal.status_code,
        "detail": refusal.detail,
        **({"errors": [error.model_dump(by_alias=True) for error in refusal.errors]} if refusal.errors else {}),
        **refusal.extra,
    }
    # Escaped, since a field's name may hold what is no character.
    text = json.dumps(content, ensure_ascii=True)
    return Response(text, refusal.status_code, dict(refusal.headers or {}), media_type=MEDIA_TYPE)


def refusal_of(error: Exception) -> Refusal:  # noqa: PLR0911  one return for each kind of error
    """Return what an error means for who has asked."""
    match error:
        case Refusal():
            return error
        case RequestValidationError():
            return _invalid(error.errors())
        case RefusedBody():
            return _invalid([{**each, "loc": ("body", *each["loc"])} for each in error.errors])
        case RefusedJson(status_code=status, detail=detail, member=member):
            return Refusal(
                status, "invalid", detail, errors=[FieldError(place="body", field=member or "body", message=detail)]
            )
        case RoutingError(status_code=400, detail=detail):  # FastAPI's, for bytes that are no JSON text at all
            return Refusal(400, "invalid", detail, errors=[FieldError(place="body", field="body", message=detail)])
        case RoutingError(status_code=status, detail=detail, headers=headers):
            return Refusal(status, "", detail, headers=headers)
        case ProjectionBehind():
            return try_later(
                "index-behind", "not all that is on the log was read here: what was not found may be there"
            )
        case RetryableError() | LogReadOnly() | LogCorrupt() | LogDenied() | TimeoutError():
            return try_later("log-out-of-reach", "the log cannot be reached; nothing of this request was accepted")
        case _:
            return Refusal(500, "", "something unforeseen has happened; it was logged")


def answer_problems(app: FastAPI, types: str) -> None:
    """Let an app answer every error as a problem (RFC 9457), and describe them; a problem's type is `types` and its kind."""
    app.state.problem_types = types

    async def answer(request: Request, error: Exception) -> Response:
        refusal = refusal_of(error)
        if isinstance(error, RefusedBody):
            try:
                charge(request, 1 + error.count / _ERRORS_OF_A_UNIT)
            except Refusal as over:
                refusal = over
        if refusal.status_code == HTTPStatus.METHOD_NOT_ALLOWED and (allowed := _allowed(app, request.url.path)):
            refusal.headers = {"Allow": allowed}
        return problem(refusal, app)

    for kind in (RequestValidationError, RoutingError, EventlibError, TimeoutError, Exception):
        app.add_exception_handler(kind, answer)
    _describe_problems(app)


def _describe_problems(app: FastAPI) -> None:
    """Put the problem's schema where the operations refer to it."""
    describe = app.openapi

    def described() -> dict[str, object]:
        schema = describe()
        schemas = schema["components"]["schemas"]
        if "Problem" not in schemas:
            problem = Problem.model_json_schema(mode="serialization", ref_template="#/components/schemas/{model}")
            schemas.update(problem.pop("$defs"))
            schemas["Problem"] = problem
        return schema

    app.openapi = described  # type: ignore[method-assign]  # how FastAPI's documentation extends OpenAPI


def _allowed(app: FastAPI, path: str) -> str:
    """Return the methods of a path (RFC 9110, 10.2.1): all of them, where Starlette names the first route's."""
    found = {
        method.upper()
        for template, operations in app.openapi()["paths"].items()
        if compile_path(template)[0].match(path)
        for method in operations
    }
    return ", ".join(sorted(found))


def _invalid(errors: Sequence[Mapping[str, Any]]) -> Refusal:
    found = [_field_error(each) for each in errors[:MOST_ERRORS]]
    first = found[0]
    status = 400 if any(each["type"] == "json_invalid" for each in errors) else 422
    detail = f"{first.place} {first.field}: {first.message}"
    return Refusal(status, "invalid", detail, errors=found)


def _field_error(error: Mapping[str, Any]) -> FieldError:
    place, *rest = error["loc"]
    if error["type"] == "json_invalid":
        return FieldError(place="body", field="body", message=f"no JSON: {error['ctx']['error']} at {rest[0]}")
    field = "".join(f"[{part}]" if isinstance(part, int) else f".{part:.{_MOST_NAME}}" for part in rest).lstrip(".")
    return FieldError(place=str(place), field=field[:_MOST_NAME] or str(place), message=error["msg"][:_MOST_MESSAGE])


def documented(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Return the problems of an operation for OpenAPI."""
    content = {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}}
    return {
        status: {"description": HTTPStatus(status).phrase, "content": content, **_headers(status)}
        for status in statuses
    }


def _headers(status: int) -> dict[str, Any]:
    if status not in {HTTPStatus.SERVICE_UNAVAILABLE, HTTPStatus.TOO_MANY_REQUESTS}:
        return {}
    return {"headers": {"Retry-After": {"description": "Seconds to wait.", "schema": {"type": "integer"}}}}
