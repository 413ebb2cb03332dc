"""Compatibility levels and modes: the global ones, and those of a subject."""

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Request, Response

from eventlib.http.registry.messages import Answer, ConfigBody, ModeBody, read
from eventlib.http.registry.names import of_subject
from eventlib.http.registry.service import Service
from eventlib.registry.compatibility import Level
from eventlib.registry.errors import invalid_level, invalid_mode, no_level, no_mode
from eventlib.registry.records import Setting

ToGlobal = Annotated[bool, Query(description="Everyone's, where the subject has none.")]
MODES = ("READWRITE", "READONLY", "READONLY_OVERRIDE", "IMPORT")
Force = Annotated[bool, Query(description="Import beside schemas that are there.")]


async def _everyone() -> None:
    """Stand for no subject, in the routes without one."""


_WHOSE = (("", Depends(_everyone)), ("/{subject}", Depends(of_subject)))
"""The two paths of each operation, and what gives their subject; None: everyone's."""


def config_router(service: Service) -> APIRouter:
    """Return the routes under /config."""
    router = APIRouter(prefix="/config", tags=["config"], route_class=service.route)
    catalogue = service.catalogue

    def described(subject: str | None) -> dict[str, Any]:
        setting = {**(catalogue.setting("CONFIG", subject) or {})}
        setting.pop("subject", None)
        return {**setting, "compatibilityLevel": catalogue.level(subject)}

    for path, whose in _WHOSE:

        @router.get(path, dependencies=[Depends(service.current)])
        async def config(subject: Annotated[str | None, whose], defaultToGlobal: ToGlobal = False) -> Answer:  # noqa: N803  as it is on the wire
            """Return a subject's level, or everyone's."""
            if subject is not None and catalogue.setting("CONFIG", subject) is None and not defaultToGlobal:
                raise no_level(subject)
            return Answer(described(subject))

        @router.put(path)
        async def set_config(request: Request, subject: Annotated[str | None, whose]) -> Response:
            """Set a subject's level, or everyone's."""
            body = await read(request, ConfigBody)
            level = None if body.compatibility is None else body.compatibility.upper()
            if level not in {None, *Level} or (level is None and body.normalize is None):
                raise invalid_level(", ".join(Level))
            given = {"subject": subject, "compatibilityLevel": level, "normalize": body.normalize}
            value = {name: each for name, each in given.items() if each is not None}

            async def act() -> dict[str, Any]:
                await service.registrar.configure(Setting("CONFIG", subject, value))
                return body.model_dump(exclude_none=True)

            return await service.forwarding.write(request, act)

        @router.delete(path)
        async def reset_config(request: Request, subject: Annotated[str | None, whose]) -> Response:
            """Take a subject's level back to everyone's, or everyone's to the server's own."""

            async def act() -> dict[str, Any]:
                before = described(subject)
                await service.registrar.reset("CONFIG", subject)
                return before

            return await service.forwarding.write(request, act)

    return router


def mode_router(service: Service) -> APIRouter:
    """Return the routes under /mode."""
    router = APIRouter(prefix="/mode", tags=["mode"], route_class=service.route)
    catalogue = service.catalogue

    for path, whose in _WHOSE:

        @router.get(path, dependencies=[Depends(service.current)])
        async def mode(subject: Annotated[str | None, whose], defaultToGlobal: ToGlobal = False) -> Answer:  # noqa: N803  as it is on the wire
            """Return a subject's mode, or everyone's."""
            if subject is not None and catalogue.setting("MODE", subject) is None and not defaultToGlobal:
                raise no_mode(subject)
            return Answer({"mode": catalogue.mode(subject)})

        @router.put(path)
        async def set_mode(request: Request, subject: Annotated[str | None, whose], force: Force = False) -> Response:
            """Set a subject's mode, or everyone's."""
            wanted = (await read(request, ModeBody)).mode.upper()
            if wanted not in MODES:
                raise invalid_mode(", ".join(MODES))
            own = {"subject": subject} if subject is not None else {}

            async def act() -> dict[str, str]:
                await service.registrar.set_mode(Setting("MODE", subject, {**own, "mode": wanted}), force=force)
                return {"mode": wanted}

            return await service.forwarding.write(request, act)

        @router.delete(path)
        async def reset_mode(request: Request, subject: Annotated[str | None, whose]) -> Response:
            """Take a subject's mode back to everyone's, or everyone's to READWRITE."""

            async def act() -> dict[str, str]:
                before = catalogue.mode(subject)
                await service.registrar.reset("MODE", subject)
                return {"mode": before}

            return await service.forwarding.write(request, act)

    return router
