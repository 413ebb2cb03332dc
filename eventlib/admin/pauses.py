"""The admin API's pauses: what is paused; a service, a decider, a kind of effect or a key is paused, and goes on."""

from dataclasses import asdict
from typing import Annotated

from fastapi import FastAPI
from pydantic import Field

from eventlib.admin.bodies import ActBody, Reason
from eventlib.eventlog import EventLog
from eventlib.http.gate import Caller
from eventlib.identity.principal import READERS, Principal, Role, allow
from eventlib.operations.as_json import paused_json, preview_json
from eventlib.operations.pause_preview import PausePreview, preview_pause, refuse_changed
from eventlib.operations.pausing import Numbers, WhatWaits, pause, resume, what_waits
from eventlib.queries.pauses import PauseTarget, pauses

Name = Annotated[str | None, Field(max_length=1_000)]


class Resume(ActBody):
    """What of a service goes on, under the names with which it was paused, and why. A dry run only tells what waits."""

    decider: Name = None
    key: Name = None
    effect: Name = None
    limit: Name = None
    reason: Annotated[str, Field(max_length=2_000)] = ""

    def target(self, log: EventLog, service: str) -> PauseTarget:
        """Return what is meant. Raises: WiringError, ContractError."""
        return PauseTarget.of(log, service, decider=self.decider, key=self.key, effect=self.effect, limit=self.limit)


class Pause(Resume):
    """What of a service is paused, and why: all of it, unless a decider, a key or an effect is named.

    A limit has other numbers meanwhile: those that are given, and not 0.
    """

    reason: Reason
    per_second: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.0
    burst: Annotated[int, Field(ge=0)] = 0
    concurrent: Annotated[int, Field(ge=0)] = 0


class PauseHandlers:
    """The request handlers of pauses."""

    def __init__(self, log: EventLog) -> None:
        self._log = log

    @allow(*READERS)
    async def list_all(self) -> dict[str, object]:
        """List what is paused, the oldest first."""
        return {"paused": [paused_json(each) for each in await pauses(self._log)]}

    @allow(Role.OPERATOR)
    async def pause(self, service: str, request: Pause, caller: Caller) -> dict[str, object]:
        """Request that the tasks of a service hold something back until it is resumed."""
        target = request.target(self._log, service)
        numbers = Numbers(request.per_second, request.burst, request.concurrent)
        if request.dry_run:
            return _answer(target, await preview_pause(self._log, target, "pause", numbers), caller)
        await refuse_changed(self._log, target, "pause", request.as_previewed, numbers)
        await pause(self._log, target, caller.by, request.reason, numbers)
        return _answer(target, await what_waits(self._log, target))

    @allow(Role.OPERATOR)
    async def resume(self, service: str, request: Resume, caller: Caller) -> dict[str, object]:
        """Request that the tasks of a service go on with what was paused."""
        target = request.target(self._log, service)
        if request.dry_run:
            return _answer(target, await preview_pause(self._log, target, "resume"), caller)
        await refuse_changed(self._log, target, "resume", request.as_previewed)
        await resume(self._log, target, caller.by, request.reason)
        return _answer(target, await what_waits(self._log, target))


def _answer(target: PauseTarget, seen: WhatWaits | PausePreview, caller: Principal | None = None) -> dict[str, object]:
    facts = {**target._asdict(), "kind": target.kind, "asked": isinstance(seen, WhatWaits)}
    if isinstance(seen, WhatWaits):
        return {**facts, "waits": asdict(seen)}
    sees = caller is not None and caller.sees_personal
    released = None if seen.released is None else preview_json(seen.released, personal=sees)
    return {**facts, "waits": asdict(seen.waits), "released": released, "as_previewed": seen.token}


def add_pauses(app: FastAPI, log: EventLog) -> None:
    """Add the routes of pauses."""
    handlers = PauseHandlers(log)
    app.get("/pauses")(handlers.list_all)
    app.post("/services/{service}/pause", status_code=202)(handlers.pause)
    app.post("/services/{service}/resume", status_code=202)(handlers.resume)
