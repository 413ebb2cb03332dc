"""Requests and answers of the registry; errors have its own form, `{"error_code": …, "message": …}`."""

import json
import logging
from http import HTTPStatus
from typing import Annotated, Any, TypeVar

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from starlette.exceptions import HTTPException as RoutingError

from eventlib.errors import EventlibError
from eventlib.ground.body_limit import compression_of
from eventlib.ground.pydantic_errors import first_errors
from eventlib.ground.strict_json import JsonRefused, decode_json
from eventlib.registry.errors import Refused, invalid_schema, store_failed
from eventlib.registry.parsing import InvalidSchema, SchemaType
from eventlib.registry.records import Reference, Schema, Version, schema_json
from eventlib.registry.registrar import RegistrationRequest

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
            place = ".".join(str(each) for each in first["loc"][1:])[:200]
            return Refused(422, 422, f"{first['loc'][0]} {place}: {first['msg']:.1000}")
        case RoutingError(status_code=status, detail=detail):
            return Refused(status, status, f"HTTP {status} {detail}")
        case InvalidSchema():  # one that is kept, and that an earlier release took
            return invalid_schema(f"a schema that is registered cannot be read any more: {error}")
        case EventlibError():
            return store_failed(str(error))
        case _:
            return Refused(500, 500, "something unforeseen has happened; it was logged")


Body = TypeVar("Body", bound=BaseModel)
Number = Annotated[int, Field(ge=1, lt=1 << 31)]
_OCTETS = "application/octet-stream"
_MOST_REFERENCES = 1_000


class _Sent(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class ReferenceBody(_Sent):
    """What a schema calls another one; version -1 is the latest."""

    name: str
    subject: str
    version: Annotated[int, Field(ge=-1, lt=1 << 31)]


class SchemaBody(_Sent):
    """A schema; with an id and a version it is imported."""

    schema_text: Annotated[str, Field(alias="schema")]
    schemaType: str | None = None  # noqa: N815  as it is on the wire
    references: Annotated[list[ReferenceBody], Field(max_length=_MOST_REFERENCES)] | None = None
    id: Number | None = None
    version: Annotated[int, Field(ge=-1, lt=1 << 31)] | None = None
    metadata: dict[str, Any] | None = None
    ruleSet: dict[str, Any] | None = None  # noqa: N815  as it is on the wire
    subject: str | None = None
    deleted: bool | None = None

    def wanted(self, *, normalize: bool) -> RegistrationRequest:
        """Return what is wanted. Raises: Refused for an unknown format, and for what is not kept here."""
        if self.metadata or self.ruleSet:
            raise Refused(422, 42210, "metadata and rules are not kept by this registry: leave them out")
        if self.schemaType is not None and self.schemaType not in {*SchemaType}:
            raise invalid_schema(f"the type {self.schemaType[:80]!r} is none of {', '.join(SchemaType)}")
        references = tuple(Reference(each.name, each.subject, each.version) for each in self.references or [])
        schema = Schema(SchemaType(self.schemaType or SchemaType.AVRO), self.schema_text, references)
        version = self.version if self.version is not None and self.version > 0 else None
        return RegistrationRequest(schema, self.id, version, normalize)


class ConfigBody(_Sent):
    """A level."""

    compatibility: str | None = None
    normalize: bool | None = None


class ModeBody(_Sent):
    """A mode."""

    mode: str


async def read(request: Request, body: type[Body]) -> Body:
    """Return a request's body. Raises: Refused."""
    kind = request.headers.get("content-type", MEDIA_TYPES[0]).partition(";")[0].strip().lower()
    if kind not in {*MEDIA_TYPES, _OCTETS}:
        raise Refused(415, 415, f"HTTP 415 Unsupported Media Type: send {', '.join(MEDIA_TYPES)}")
    if (encoding := compression_of(request)) is not None:
        raise Refused(415, 415, f"HTTP 415 Unsupported Media Type: send the body without Content-Encoding: {encoding}")
    try:
        text = await request.body()
        document = decode_json(text.decode(json.detect_encoding(text)))
    except (ValueError, JsonRefused) as error:
        raise Refused(400, 400, f"the body is no JSON: {error!s:.200}") from error
    try:
        return body.model_validate(document)
    except ValidationError as error:
        first = first_errors(error, 1)[0]
        place = ".".join(str(each) for each in first["loc"])[:200] or "the body"
        raise Refused(422, 422, f"{place}: {first['msg']:.1000}") from error


def described(version: Version) -> dict[str, Any]:
    """Return a version as JSON."""
    schema = version.schema
    found: dict[str, Any] = {"subject": version.subject, "version": version.version, "id": version.id}
    if version.deleted:
        found["deleted"] = True
    return {**found, **schema_json(schema)}
