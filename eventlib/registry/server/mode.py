"""Modes: whether schemas may be registered, everyone's and each subject's own."""

from typing import Annotated

from fastapi import APIRouter, Depends, Query, Request, Response

from eventlib.registry.records import Setting
from eventlib.registry.refusals import invalid_mode, no_mode
from eventlib.registry.server.answers import Answer
from eventlib.registry.server.bodies import ModeBody, read
from eventlib.registry.server.config import ToGlobal
from eventlib.registry.server.names import Subject
from eventlib.registry.server.service import Service

MODES = ("READWRITE", "READONLY", "READONLY_OVERRIDE", "IMPORT")
Force = Annotated[bool, Query(description="Import beside schemas that are there.")]
_KIND = "MODE"


class _Modes:
    """What is done about a subject's mode, or everyone's (None)."""

    def __init__(self, service: Service) -> None:
        self._service = service

    async def set(self, request: Request, subject: str | None, *, force: bool) -> Response:
        """Set it to what a request says."""
        mode = (await read(request, ModeBody)).mode.upper()
        if mode not in MODES:
            raise invalid_mode(", ".join(MODES))
        own = {"subject": subject} if subject is not None else {}

        async def act() -> dict[str, str]:
            await self._service.registrar.set_mode(Setting(_KIND, subject, {**own, "mode": mode}), force=force)
            return {"mode": mode}

        return await self._service.forwarding.write(request, act)

    async def reset(self, request: Request, subject: str | None) -> Response:
        """Take it back."""

        async def act() -> dict[str, str]:
            before = self._service.catalogue.mode(subject)
            await self._service.registrar.reset(_KIND, subject)
            return {"mode": before}

        return await self._service.forwarding.write(request, act)


def mode_router(service: Service) -> APIRouter:
    """Return the routes under /mode."""
    router = APIRouter(prefix="/mode", tags=["mode"], route_class=service.route)
    modes, catalogue = _Modes(service), service.catalogue

    @router.get("", dependencies=[Depends(service.current)])
    async def global_mode() -> Answer:
        """Return everyone's mode."""
        return Answer({"mode": catalogue.mode(None)})

    @router.put("")
    async def set_global_mode(request: Request, force: Force = False) -> Response:
        """Set everyone's mode."""
        return await modes.set(request, None, force=force)

    @router.delete("")
    async def reset_global_mode(request: Request) -> Response:
        """Take everyone's mode back to READWRITE."""
        return await modes.reset(request, None)

    @router.get("/{subject}", dependencies=[Depends(service.current)])
    async def mode(subject: Subject, defaultToGlobal: ToGlobal = False) -> Answer:  # noqa: N803  as it is on the wire
        """Return a subject's mode."""
        if catalogue.setting(_KIND, subject) is None and not defaultToGlobal:
            raise no_mode(subject)
        return Answer({"mode": catalogue.mode(subject)})

    @router.put("/{subject}")
    async def set_mode(request: Request, subject: Subject, force: Force = False) -> Response:
        """Set a subject's mode."""
        return await modes.set(request, subject, force=force)

    @router.delete("/{subject}")
    async def reset_mode(request: Request, subject: Subject) -> Response:
        """Take a subject's mode back to everyone's."""
        return await modes.reset(request, subject)

    return router
