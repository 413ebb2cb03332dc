"""Whether a schema would be let in."""

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Request

from eventlib.registry.server.answers import Answer
from eventlib.registry.server.bodies import SchemaBody, read
from eventlib.registry.server.names import Normalize, Subject, VersionNumber
from eventlib.registry.server.service import Service

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
