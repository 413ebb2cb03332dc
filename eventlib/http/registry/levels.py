"""Compatibility levels and modes: the global ones, and those of a subject."""

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Request, Response

from eventlib.http.registry.messages import Answer, ConfigBody, ModeBody, read
from eventlib.http.registry.names import Subject
from eventlib.http.registry.service import Service
from eventlib.registry.compatibility import Level
from eventlib.registry.errors import invalid_level, invalid_mode, no_level, no_mode
from eventlib.registry.records import Setting

ToGlobal = Annotated[bool, Query(description="Everyone's, where the subject has none.")]
_KIND = "CONFIG"


class _Levels:
    """What is done about a subject's level, or everyone's (None)."""

    def __init__(self, service: Service) -> None:
        self._service = service

    def described(self, subject: str | None) -> dict[str, Any]:
        """Return a level as JSON."""
        catalogue = self._service.catalogue
        setting = {**(catalogue.setting(_KIND, subject) or {})}
        setting.pop("subject", None)
        return {**setting, "compatibilityLevel": catalogue.level(subject)}

    async def set(self, request: Request, subject: str | None) -> Response:
        """Set it to what a request has."""
        body = await read(request, ConfigBody)
        level = None if body.compatibility is None else body.compatibility.upper()
        if level not in {None, *Level} or (level is None and body.normalize is None):
            raise invalid_level(", ".join(Level))
        given = {"subject": subject, "compatibilityLevel": level, "normalize": body.normalize}
        value = {name: each for name, each in given.items() if each is not None}

        async def act() -> dict[str, Any]:
            await self._service.registrar.configure(Setting(_KIND, subject, value))
            return body.model_dump(exclude_none=True)

        return await self._service.forwarding.write(request, act)

    async def reset(self, request: Request, subject: str | None) -> Response:
        """Take it back."""

        async def act() -> dict[str, Any]:
            before = self.described(subject)
            await self._service.registrar.reset(_KIND, subject)
            return before

        return await self._service.forwarding.write(request, act)


def config_router(service: Service) -> APIRouter:
    """Return the routes under /config."""
    router = APIRouter(prefix="/config", tags=["config"], route_class=service.route)
    levels = _Levels(service)

    @router.get("", dependencies=[Depends(service.current)])
    async def global_config() -> Answer:
        """Return everyone's level."""
        return Answer(levels.described(None))

    @router.put("")
    async def set_global_config(request: Request) -> Response:
        """Set everyone's level."""
        return await levels.set(request, None)

    @router.delete("")
    async def reset_global_config(request: Request) -> Response:
        """Take everyone's level back to the server's own."""
        return await levels.reset(request, None)

    @router.get("/{subject}", dependencies=[Depends(service.current)])
    async def config(subject: Subject, defaultToGlobal: ToGlobal = False) -> Answer:  # noqa: N803  as it is on the wire
        """Return a subject's level."""
        if service.catalogue.setting(_KIND, subject) is None and not defaultToGlobal:
            raise no_level(subject)
        return Answer(levels.described(subject))

    @router.put("/{subject}")
    async def set_config(request: Request, subject: Subject) -> Response:
        """Set a subject's level."""
        return await levels.set(request, subject)

    @router.delete("/{subject}")
    async def reset_config(request: Request, subject: Subject) -> Response:
        """Take a subject's level back to everyone's."""
        return await levels.reset(request, subject)

    return router


MODES = ("READWRITE", "READONLY", "READONLY_OVERRIDE", "IMPORT")
Force = Annotated[bool, Query(description="Import beside schemas that are there.")]
_MODE_KIND = "MODE"


class _Modes:
    """What is done about a subject's mode, or everyone's (None)."""

    def __init__(self, service: Service) -> None:
        self._service = service

    async def set(self, request: Request, subject: str | None, *, force: bool) -> Response:
        """Set it to what a request has."""
        mode = (await read(request, ModeBody)).mode.upper()
        if mode not in MODES:
            raise invalid_mode(", ".join(MODES))
        own = {"subject": subject} if subject is not None else {}

        async def act() -> dict[str, str]:
            await self._service.registrar.set_mode(Setting(_MODE_KIND, subject, {**own, "mode": mode}), force=force)
            return {"mode": mode}

        return await self._service.forwarding.write(request, act)

    async def reset(self, request: Request, subject: str | None) -> Response:
        """Take it back."""

        async def act() -> dict[str, str]:
            before = self._service.catalogue.mode(subject)
            await self._service.registrar.reset(_MODE_KIND, subject)
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
        if catalogue.setting(_MODE_KIND, subject) is None and not defaultToGlobal:
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
