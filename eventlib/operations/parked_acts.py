"""The acts on what is parked: retry, edit, discard; of one key or effect, or of all that are selected."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from secrets import token_hex
from typing import Annotated, ClassVar

from pydantic import BaseModel, ConfigDict, Field

from eventlib.errors import ContractError
from eventlib.eventlog import EventLog
from eventlib.operations.act import Act, Ambiguous, Desk, NotThere, Outcome
from eventlib.operations.as_json import parking_json, preview_json
from eventlib.operations.command_status import CommandQuery, Outcomes, pending_retries
from eventlib.operations.dry_run import token_of
from eventlib.operations.parked_commands import (
    Command,
    LeftOut,
    apart_from_paused,
    discard_of,
    edit_of,
    event_with,
    retry_of,
    send,
)
from eventlib.operations.parked_groups import fingerprint_of
from eventlib.operations.parked_preview import Preview, preview_each, token_of_previews
from eventlib.queries.parked import ParkedQuery, Parking, named, parkings
from eventlib.runtime.records import code_version

_NAMED = 10
"""How many of those that are left out are named."""
Ignored = Annotated[str | None, Field(max_length=200, description="Ignored: who acts follows from the token.")]


@dataclass(frozen=True, slots=True)
class Chosen:
    """What an act is about: what it can act on now, and what it leaves out; `is_one`: it names one.

    `members` is what was selected, of which some may have been chosen; a dry run tries the first of `tried`.
    """

    ready: Sequence[Parking]
    left_out: Sequence[LeftOut] = ()
    is_one: bool = False
    members: Sequence[Parking] = ()
    tried: Sequence[Parking] = ()


@dataclass(frozen=True)
class ParkedOutcome(Outcome):
    """What came of commands about what is parked, or would: then there are `previews`, by code of a version.

    `new` counts the commands that were not on the log before.
    """

    log: EventLog
    chosen: Chosen
    previews: Sequence[Preview] = ()
    requests: Sequence[CommandQuery] = ()
    new: int = 0
    outcomes: Outcomes | None = None
    token: str = ""

    @property
    def changes(self) -> bool:
        """Whether there is anything that it is about."""
        return bool(self.chosen.ready)

    @property
    def fails(self) -> bool:
        """Whether something is parked again, or would be."""
        again = self.outcomes is not None and bool(self.outcomes.parked_again)
        return again or any(each.prospect == "parks again" for each in self.previews)

    @property
    def notes(self) -> Sequence[str]:
        """What is left out, and why."""
        left_out = self.chosen.left_out
        more = len(left_out) - _NAMED
        named = [f"left out: {each.parking.decider} {each.parking.key}: {each.why}" for each in left_out[:_NAMED]]
        return [*named, f"left out: {more:,} more that are paused"] if more > 0 else named

    def json(self, *, personal: bool = False) -> dict[str, object]:
        """See `Outcome`."""
        answer: dict[str, object]
        if self.token:
            answer = {"done": False, "as_previewed": self.token, "previews": self.lines(personal=personal)}
        elif self.chosen.is_one:
            ((parking, offset),) = self.requests
            control = self.log.choreography.service(parking.service).control.name
            names = {"service": parking.service, "decider": parking.decider, "key": parking.key, "id": parking.id}
            return {**names, "asked": {"topic": control, "partition": parking.partition, "offset": offset}}
        else:
            answer = {"asked": self.new, "asked_already": len(self.requests) - self.new}
        if self.chosen.left_out:
            left_out = [parking_json(each.parking) | {"why": each.why} for each in self.chosen.left_out]
            answer["left_out"] = left_out
        return answer

    def lines(self, *, personal: bool = False) -> list[dict[str, object]]:
        """Return a line for each preview, or for each command, with its outcome."""
        if self.token:
            shared = {"code_version": code_version(self.log.choreography), "as_previewed": self.token}
            return [{**preview_json(each, personal=personal), **shared} for each in self.previews]
        if self.outcomes is None:
            return []
        again = self.outcomes.parked_again
        return [
            {
                **parking_json(again.get(parking.name, parking)),
                "requested_at_offset": offset,
                "outcome": outcome,
            }
            for (parking, offset), outcome in zip(self.requests, self.outcomes.all, strict=True)
        ]


class ParkedAct(Act[Chosen, ParkedOutcome]):
    """An act on what is parked, by a command about each."""

    follows_pending: ClassVar[bool] = False
    """Whether a retry that is pending is followed, and not requested again."""
    refuses: ClassVar[bool] = False
    """Whether a dry run refuses what the act would refuse; else that is not known."""
    by: Ignored = None

    async def preview(self, desk: Desk, about: Chosen) -> ParkedOutcome:
        """Return what today's code would make of each. Guarantee: writes nothing."""
        found = await self._previews(desk.log, about.ready)
        return ParkedOutcome(desk.log, about, found, token=token_of_previews(found))

    async def apply(self, desk: Desk, about: Chosen) -> ParkedOutcome:
        """Request it of the tasks, and follow them as long as the desk waits."""
        log, found = desk.log, about.ready
        already = await pending_retries(log, found) if self.follows_pending else {}
        new = [each for each in found if each.name not in already]
        commands = [await self.command(log, each, desk.by, self.reason) for each in new]
        offsets = await send(log, commands, "" if about.is_one or len(new) == 1 else _bulk_of(new))
        placed = already | {each.name: offset for each, offset in zip(new, offsets, strict=True)}
        requests = [CommandQuery(each, placed[each.name]) for each in found]
        outcomes = Outcomes(log, requests)
        if desk.wait_s is not None:
            await outcomes.follow(desk.wait_s, desk.progress)
        return ParkedOutcome(log, about, (), requests, len(new), outcomes)

    async def _previews(self, log: EventLog, found: Sequence[Parking]) -> Sequence[Preview]:
        made = partial(self.command, by="", reason="a preview")
        return await preview_each(log, found, made, refuses=self.refuses)

    async def command(self, log: EventLog, parking: Parking, by: str, reason: str) -> Command:
        """Return the command about one. Raises: ContractError for what it cannot be about."""
        raise NotImplementedError


class _OfOne(ParkedAct):
    """About a decider's key, or an effect of it by its id; without a service, of any that has the decider."""

    service: str = ""
    decider: str
    key: str

    async def select(self, desk: Desk) -> Chosen:
        """Return what is parked: a key before the effects of it. Raises: WiringError; NotThere; Ambiguous."""
        wanted = ParkedQuery.of(desk.log, [self.service] if self.service else [], [self.decider], None)
        found = named(parked_under(await parkings(desk.log, wanted=wanted), self.key), self.key)
        if len(found) > 1:
            ids = ", ".join(each.id or each.key for each in found)
            raise Ambiguous(f"more than one thing is parked under {self.key!r}: name one of {ids}")
        return Chosen(found, is_one=True)


class ParkedSelection(BaseModel):
    """Which of what is parked is meant."""

    model_config = ConfigDict(extra="forbid")
    service: list[str] = Field(default_factory=list, description="Only of these services.")
    decider: list[str] = Field(default_factory=list, description="Only of these deciders.")
    reason_matches: Annotated[
        str | None, Field(max_length=1_000, description="Where the reason matches this regular expression.")
    ] = None

    async def parkings(self, log: EventLog) -> list[Parking]:
        """Return what is selected, the oldest first. Raises: WiringError for an unknown name; ContractError."""
        return await parkings(log, wanted=ParkedQuery.of(log, self.service, self.decider, self.reason_matches))


class _OfMany(ParkedSelection, ParkedAct):
    """About all that is selected, but for what is paused, which is left out."""

    query: ClassVar[tuple[str, ...]] = ("service", "decider", "reason_matches", "key", "cause")
    key: Annotated[str | None, Field(description="Only under this key, or with this effect's id.")] = None
    cause: Annotated[str | None, Field(max_length=100, description="Only what is parked for this cause.")] = None
    names: Annotated[
        set[tuple[str, str, str]] | None, Field(description="Of these only some, by service, decider and key.")
    ] = None
    most_tried: Annotated[
        int | None, Field(ge=1, description="How many a dry run tries, the first ones. Default: all.")
    ] = None

    async def select(self, desk: Desk) -> Chosen:
        """Return what is selected. Raises: WiringError; ContractError; NotThere for a key or a cause that is not parked."""
        found = await self.parkings(desk.log)
        if self.key is not None:
            found = parked_under(found, self.key)
            return Chosen(found, members=found, tried=found)
        if self.cause is not None:
            found = [each for each in found if fingerprint_of(each) == self.cause]
            if not found:
                raise NotThere("nothing is parked for this cause any more")
        elif self.names is not None:
            found = [each for each in found if self._has(each)]
        ready, left_out = await apart_from_paused(desk.log, found)
        some = [each for each in ready if self._has(each)], [each for each in left_out if self._has(each.parking)]
        return Chosen(*some, members=found, tried=ready)

    def _has(self, parking: Parking) -> bool:
        return self.names is None or parking.name in self.names

    async def preview(self, desk: Desk, about: Chosen) -> ParkedOutcome:
        """Return what today's code would make of the first ones. Guarantee: writes nothing."""
        found = await self._previews(desk.log, about.tried[: self.most_tried])
        members = sorted((*map(str, each.name), str(each.first), str(each.waiting)) for each in about.members)
        return ParkedOutcome(desk.log, about, found, token=token_of("group", members, token_of_previews(found)))

    async def apply(self, desk: Desk, about: Chosen) -> ParkedOutcome:
        """Request it of all. Raises: ContractError when some are named, and none of them can be acted on."""
        if not about.ready and (self.names, self.cause) != (None, None):
            raise ContractError(about.left_out[0].why if about.left_out else "choose what this is about, or all of it")
        return await super().apply(desk, about)


class _Retrying:
    needs_reason: ClassVar[bool] = False
    follows_pending: ClassVar[bool] = True

    async def command(self, log: EventLog, parking: Parking, by: str, reason: str) -> Command:
        del log
        return retry_of(parking, by, reason)


class _Discarding:
    async def command(self, log: EventLog, parking: Parking, by: str, reason: str) -> Command:
        return await discard_of(log, parking, by, reason)


class Retry(_Retrying, _OfOne):
    """Have a parked key's inputs handled again, in order, or a parked effect."""

    path: ClassVar[str] = "/parked/{service}/{decider}/{key:key}/retry"


class RetryAll(_Retrying, _OfMany):
    """Have all that is selected handled again; pending requests are not repeated."""

    path: ClassVar[str] = "/parked/retry"


class Discard(_Discarding, _OfOne):
    """Discard a key's first input, or an effect, permanently."""

    path: ClassVar[str] = "/parked/{service}/{decider}/{key:key}/discard"


class DiscardAll(_Discarding, _OfMany):
    """Discard the first input of each key that is selected, and each effect, permanently."""

    path: ClassVar[str] = "/parked/discard"


class Edit(_OfOne):
    """Have a key's first input handled with other data (all of it, or some fields), and then those behind it."""

    path: ClassVar[str] = "/parked/{service}/{decider}/{key:key}/edit"
    needs_reason: ClassVar[bool] = False
    decides: ClassVar[bool] = True
    refuses: ClassVar[bool] = True
    data: Annotated[object, Field(description="All of the event's fields.")] = None
    fields: dict[str, object] = Field(default_factory=dict, alias="set", description="Or some of them, by name.")

    async def command(self, log: EventLog, parking: Parking, by: str, reason: str) -> Command:
        """See `ParkedAct`. Raises: ContractError, naming the field, for data that does not fit; NoRight."""
        return await edit_of(log, parking, await event_with(log, parking, self.data, self.fields), by, reason)


def _bulk_of(found: Sequence[Parking]) -> str:
    """Return a name for an act about many, with their cause if they have one."""
    causes = {fingerprint_of(each) for each in found}
    return f"{token_hex(6)} {causes.pop() if len(causes) == 1 else ''}"


def parked_under(found: Iterable[Parking], key: str) -> list[Parking]:
    """Return what is parked under a key, or an id. Raises: NotThere when nothing is."""
    kept = [parking for parking in found if key in {parking.key, parking.id}]
    if not kept:
        raise NotThere(f"nothing is parked under {key!r}: `eventlib parked list` shows what is")
    return kept
