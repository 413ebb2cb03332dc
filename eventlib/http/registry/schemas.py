"""Schemas by id, and whether the registry accepts a schema."""

import base64
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Request

from eventlib.http.registry.messages import Answer, SchemaBody, described, read
from eventlib.http.registry.names import Deleted, Limit, Normalize, Offset, SchemaId, Subject, VersionNumber, page
from eventlib.http.registry.service import Service
from eventlib.registry.errors import Refused, no_schema_of
from eventlib.registry.parsing import SchemaType, parse
from eventlib.registry.records import Schema, schema_json

Format = Annotated[str, Query(description="`serialized`: a Protobuf descriptor in base64.")]


def schemas_router(service: Service) -> APIRouter:
    """Return the routes under /schemas."""
    router = APIRouter(prefix="/schemas", tags=["schemas"], route_class=service.route)
    catalogue = service.catalogue

    def found(schema_id: int) -> Schema:
        schema = catalogue.schema(schema_id)
        if schema is None:
            raise no_schema_of(schema_id)
        return schema

    @router.get("", dependencies=[Depends(service.current)])
    async def schemas(
        subjectPrefix: str = "",  # noqa: N803  as it is on the wire
        deleted: Deleted = False,
        latestOnly: bool = False,  # noqa: N803  as it is on the wire
        offset: Offset = 0,
        limit: Limit = -1,
    ) -> Answer:
        """List the versions of all subjects."""
        subjects = [each for each in catalogue.subjects(also_deleted=deleted) if each.startswith(subjectPrefix)]
        versions = [catalogue.versions(each, also_deleted=deleted)[-1 if latestOnly else 0 :] for each in subjects]
        return Answer(page([described(version) for each in versions for version in each], offset, limit))

    @router.get("/types")
    async def types() -> Answer:
        """List the formats."""
        return Answer([*SchemaType])

    @router.get("/ids/{schema_id}")
    async def schema(
        schema_id: SchemaId,
        format: Format = "",  # noqa: A002  as it is on the wire
        fetchMaxId: bool = False,  # noqa: N803  as it is on the wire
        subject: str = "",
    ) -> Answer:
        """Return a schema; one that is deleted too, so that what was written with it can be read."""
        del subject  # ids are the same under every subject
        answer: dict[str, Any] = {**schema_json(found(schema_id)), "schema": text_in(service, found(schema_id), format)}
        return Answer({**answer, "maxId": catalogue.highest} if fetchMaxId else answer)

    @router.get("/ids/{schema_id}/schema")
    async def text(schema_id: SchemaId, format: Format = "", subject: str = "") -> Answer:  # noqa: A002  as it is on the wire
        """Return a schema's text alone."""
        del subject
        return bare(text_in(service, found(schema_id), format))

    @router.get("/ids/{schema_id}/subjects", dependencies=[Depends(service.current)])
    async def subjects(schema_id: SchemaId, deleted: Deleted = False, offset: Offset = 0, limit: Limit = -1) -> Answer:
        """List the subjects that have a schema."""
        found(schema_id)
        names = dict.fromkeys(each.subject for each in catalogue.places(schema_id, also_deleted=deleted))
        return Answer(page([*names], offset, limit))

    @router.get("/ids/{schema_id}/versions", dependencies=[Depends(service.current)])
    async def versions(schema_id: SchemaId, deleted: Deleted = False, offset: Offset = 0, limit: Limit = -1) -> Answer:
        """List the versions that are a schema."""
        found(schema_id)
        places = catalogue.places(schema_id, also_deleted=deleted)
        return Answer(page([{"subject": each.subject, "version": each.version} for each in places], offset, limit))

    return router


def text_in(service: Service, schema: Schema, form: str) -> str:
    """Return a schema's text in a form. Raises: Refused for a form that the schema has not."""
    if not form or (form == "serialized" and schema.kind is not SchemaType.PROTOBUF):
        return schema.text
    if form != "serialized":
        raise Refused(422, 422, f"query format: {form[:80]!r} is not given; known is serialized, for Protobuf")
    parsed = parse(schema.kind, schema.text, service.catalogue.texts(schema.references))
    return base64.b64encode(parsed.model.main).decode()


def bare(text: str) -> Answer:
    """Return a text as it is, not as JSON of one."""
    answer = Answer(None)
    answer.body = text.encode("utf-8", "backslashreplace")
    answer.headers["content-length"] = str(len(answer.body))
    return answer


Verbose = Annotated[bool, Query(description="Say what is in the way.")]


def compatibility_router(service: Service) -> APIRouter:
    """Return the routes under /compatibility."""
    router = APIRouter(
        prefix="/compatibility/subjects/{subject}/versions", tags=["compatibility"], route_class=service.route
    )
    catalogue, registrar = service.catalogue, service.registrar

    async def judged(request: Request, subject: str, version: int | None, *, normalize: bool, verbose: bool) -> Answer:
        wanted = (await read(request, SchemaBody)).wanted(normalize=normalize)
        against = None if version is None else [catalogue.version(subject, version)]
        understood = await registrar.understand(wanted, subject)
        found = await registrar.judge(subject, understood, against)
        answer: dict[str, Any] = {"is_compatible": not found}
        if verbose:
            answer["messages"] = [f"{each.rule} at {each.path}: {each.message}" for each in found]
        return Answer(answer)

    @router.post("", dependencies=[Depends(service.current)])
    async def with_all(
        request: Request, subject: Subject, normalize: Normalize = False, verbose: Verbose = False
    ) -> Answer:
        """Tell whether a schema would be let in, given the versions that its level looks at."""
        return await judged(request, subject, None, normalize=normalize, verbose=verbose)

    @router.post("/{version}", dependencies=[Depends(service.current)])
    async def with_one(
        request: Request,
        subject: Subject,
        version: VersionNumber,
        normalize: Normalize = False,
        verbose: Verbose = False,
    ) -> Answer:
        """Tell whether a schema is compatible with one version, by the subject's level."""
        return await judged(request, subject, version, normalize=normalize, verbose=verbose)

    return router
