"""The acts that hold a part of a service back, and let it go on: what waits, and what a key that goes on would emit."""

from dataclasses import asdict, dataclass
from typing import Annotated, ClassVar, Literal

from pydantic import Field, ValidationInfo, field_validator
from pydantic_core import PydanticCustomError

from eventlib.operations.act import Act, Desk, Outcome
from eventlib.operations.as_json import paused_json, preview_json
from eventlib.operations.dry_run import dry_run_of, token_of
from eventlib.operations.parked_commands import Command
from eventlib.operations.parked_preview import Preview, preview_commands
from eventlib.operations.pausing import Numbers, WhatWaits, pause, paused, resume, settled, what_waits
from eventlib.queries.parked import parkings
from eventlib.queries.pauses import Paused, PauseTarget
from eventlib.runtime.parking.control import ResumeRequested

Name = Annotated[str | None, Field(max_length=1_000)]


@dataclass(frozen=True)
class PauseOutcome(Outcome):
    """What waits, or would; `paused` is how the target is paused now, as far as tasks have taken that up.

    `released` is what a key's inputs would come to that wait since it was paused.
    """

    act: Literal["pause", "resume"]
    target: PauseTarget
    waits: WhatWaits
    paused: Paused | None = None
    released: Preview | None = None
    token: str = ""

    def json(self, *, personal: bool = False) -> dict[str, object]:
        """See `Outcome`."""
        return {
            **self.target._asdict(),
            "kind": self.target.kind,
            "act": self.act,
            "done": not self.token,
            "asked": not self.token,
            "waits": asdict(self.waits),
            "released": None if self.released is None else preview_json(self.released, personal=personal),
            "paused": None if self.paused is None else paused_json(self.paused),
            **self.previewed,
        }


class PauseAct(Act[PauseTarget, PauseOutcome]):
    """What of a service is meant: all of it, unless a decider, a key, an effect or a limit is named."""

    act: ClassVar[Literal["pause", "resume"]]
    service: Annotated[str, Field(description="The service's name.")]
    decider: Annotated[Name, Field(description="One decider of it, or the one of the key.")] = None
    key: Annotated[Name, Field(description="One key of it.")] = None
    effect: Annotated[Name, Field(description="One kind of effect: the type of its requests.")] = None
    limit: Annotated[Name, Field(description="A limit of its effects, by its port or request.")] = None

    async def select(self, desk: Desk) -> PauseTarget:
        """Return what is meant. Raises: WiringError, ContractError."""
        names = {"decider": self.decider, "key": self.key, "effect": self.effect, "limit": self.limit}
        return PauseTarget.of(desk.log, self.service, **names)

    async def preview(self, desk: Desk, about: PauseTarget) -> PauseOutcome:
        """Return what it would come to now. Guarantee: writes nothing. Raises: as the act."""
        log = desk.log
        trial = await dry_run_of(log, [log.choreography.service(self.service)], may_be_masked=True)
        await self._ask(Desk(trial, ""), about, "a preview")
        waits, released = await what_waits(log, about), None
        if self.act == "resume" and about.key is not None:
            of_key = [each for each in await parkings(log, {about.key}) if each.is_paused]
            since = [each for each in of_key if (each.service, each.decider) == (about.service, about.decider)]
            commands = [Command(each, ResumeRequested(*about.fields)) for each in since]
            released = next(iter(await preview_commands(log, trial, commands)), None)
        shown = about, self._numbers(), waits, "" if released is None else released.position
        token = token_of(self.act, *shown)
        return PauseOutcome(self.act, about, waits, await paused(log, about), released, token)

    async def apply(self, desk: Desk, about: PauseTarget) -> PauseOutcome:
        """Ask the tasks, and wait for them as long as the desk does."""
        waits = await what_waits(desk.log, about)
        await self._ask(desk, about, self.reason)
        return PauseOutcome(self.act, about, waits, await settled(desk.log, about, desk.wait_s or 0))

    def _numbers(self) -> Numbers:
        return Numbers()

    async def _ask(self, desk: Desk, about: PauseTarget, reason: str) -> None:
        raise NotImplementedError


class Pause(PauseAct):
    """Hold something back until it is resumed; a limit has other numbers meanwhile: those that are given, and not 0."""

    act: ClassVar[Literal["pause", "resume"]] = "pause"
    path: ClassVar[str] = "/services/{service}/pause"
    per_second: Annotated[float, Field(ge=0, allow_inf_nan=False, description="With a limit: attempts a second.")] = 0.0
    burst: Annotated[int, Field(ge=0, description="With a limit: attempts at once.")] = 0
    concurrent: Annotated[int, Field(ge=0, description="With a limit: attempts that are out.")] = 0

    @field_validator("per_second", "burst", "concurrent")
    @classmethod
    def _of_a_limit(cls, number: float, info: ValidationInfo) -> float:
        if number and info.data.get("limit") is None:
            raise PydanticCustomError("limit", "name the limit that has this number")
        return number

    def _numbers(self) -> Numbers:
        return Numbers(self.per_second, self.burst, self.concurrent)

    async def _ask(self, desk: Desk, about: PauseTarget, reason: str) -> None:
        await pause(desk.log, about, desk.by, reason, self._numbers())


class Resume(PauseAct):
    """Resume what was paused under the same names."""

    act: ClassVar[Literal["pause", "resume"]] = "resume"
    path: ClassVar[str] = "/services/{service}/resume"
    needs_reason: ClassVar[bool] = False

    async def _ask(self, desk: Desk, about: PauseTarget, reason: str) -> None:
        await resume(desk.log, about, desk.by, reason)
