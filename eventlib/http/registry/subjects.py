"""Subjects and their versions."""

from typing import Annotated

from fastapi import APIRouter, Depends, Query, Request, Response

from eventlib.http.registry.messages import Answer, SchemaBody, described, read
from eventlib.http.registry.names import Deleted, Limit, Normalize, Offset, Permanent, Subject, VersionNumber, page
from eventlib.http.registry.schemas import Format, bare, text_in
from eventlib.http.registry.service import Service
from eventlib.registry.errors import no_subject

DeletedOnly = Annotated[bool, Query(description="Only those that are deleted.")]


def subjects_router(service: Service) -> APIRouter:
    """Return the routes under /subjects."""
    router = APIRouter(prefix="/subjects", tags=["subjects"], route_class=service.route)
    catalogue, registrar = service.catalogue, service.registrar

    @router.get("", dependencies=[Depends(service.current)])
    async def subjects(
        subjectPrefix: str = "",  # noqa: N803  as it is on the wire
        deleted: Deleted = False,
        deletedOnly: DeletedOnly = False,  # noqa: N803  as it is on the wire
        offset: Offset = 0,
        limit: Limit = -1,
    ) -> Answer:
        """List the subjects."""
        living = {*catalogue.subjects()} if deletedOnly else set[str]()
        found = [
            each
            for each in catalogue.subjects(also_deleted=deleted or deletedOnly)
            if each.startswith(subjectPrefix.removeprefix(":*:")) and each not in living
        ]
        return Answer(page([*found], offset, limit))

    @router.post("/{subject}")
    async def look_up(
        request: Request, subject: Subject, normalize: Normalize = False, deleted: Deleted = False
    ) -> Answer:
        """Return the version of a subject that is a schema."""
        body = await read(request, SchemaBody)
        if not catalogue.versions(subject, also_deleted=deleted):
            raise no_subject(subject)
        understood = await registrar.understand(body.wanted(normalize=normalize), subject)
        return Answer(described(await registrar.look_up(subject, understood, also_deleted=deleted)))

    @router.delete("/{subject}")
    async def delete_subject(request: Request, subject: Subject, permanent: Permanent = False) -> Response:
        """Delete a subject with all its versions, and return their numbers."""

        async def act() -> list[int]:
            return await registrar.delete_subject(subject, permanent=permanent)

        return await service.forwarding.write(request, act)

    return router


def versions_router(service: Service) -> APIRouter:
    """Return the routes under /subjects/{subject}/versions."""
    router = APIRouter(prefix="/subjects/{subject}/versions", tags=["subjects"], route_class=service.route)
    catalogue, registrar = service.catalogue, service.registrar

    @router.get("", dependencies=[Depends(service.current)])
    async def versions(
        subject: Subject,
        deleted: Deleted = False,
        deletedOnly: DeletedOnly = False,  # noqa: N803  as it is on the wire
        offset: Offset = 0,
        limit: Limit = -1,
    ) -> Answer:
        """List the numbers of a subject's versions."""
        found = catalogue.versions(subject, also_deleted=deleted or deletedOnly)
        if not found:
            raise no_subject(subject)
        return Answer(page([each.version for each in found if each.deleted or not deletedOnly], offset, limit))

    @router.post("")
    async def register(request: Request, subject: Subject, normalize: Normalize = False) -> Response:
        """Register a schema under a subject, and return its id."""
        wanted = (await read(request, SchemaBody)).wanted(normalize=normalize)

        async def act() -> dict[str, int]:
            return {"id": (await registrar.register(subject, wanted)).id}

        return await service.forwarding.write(request, act)

    @router.get("/{version}")
    async def version(
        subject: Subject,
        version: VersionNumber,
        deleted: Deleted = False,
        format: Format = "",  # noqa: A002  as it is on the wire
    ) -> Answer:
        """Return a version of a subject."""
        found = catalogue.version(subject, version, also_deleted=deleted)
        return Answer({**described(found), "schema": text_in(service, found.schema, format)})

    @router.get("/{version}/schema")
    async def text(
        subject: Subject,
        version: VersionNumber,
        deleted: Deleted = False,
        format: Format = "",  # noqa: A002  as it is on the wire
    ) -> Answer:
        """Return a version's text alone."""
        return bare(text_in(service, catalogue.version(subject, version, also_deleted=deleted).schema, format))

    @router.get("/{version}/referencedby", dependencies=[Depends(service.current)])
    async def referenced_by(subject: Subject, version: VersionNumber, offset: Offset = 0, limit: Limit = -1) -> Answer:
        """List the ids of the schemas that refer to a version."""
        found = catalogue.version(subject, version, also_deleted=True)
        return Answer(page([*catalogue.referring(subject, found.version)], offset, limit))

    @router.delete("/{version}")
    async def delete_version(
        request: Request, subject: Subject, version: VersionNumber, permanent: Permanent = False
    ) -> Response:
        """Delete a version, and return its number."""

        async def act() -> int:
            return await registrar.delete_version(subject, version, permanent=permanent)

        return await service.forwarding.write(request, act)

    return router
