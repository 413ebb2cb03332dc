"""What a pause or a resume would come to: refused as the act is, what waits, and what a key that goes on would emit."""

from dataclasses import dataclass
from typing import Literal

from eventlib.eventlog import EventLog
from eventlib.operations.dry_run import dry_run_of, refuse_moved, token_of
from eventlib.operations.parked_commands import Command
from eventlib.operations.parked_preview import Preview, preview_commands
from eventlib.operations.pausing import Numbers, WhatWaits, pause, resume, what_waits
from eventlib.queries.parked import parkings
from eventlib.queries.pauses import PauseTarget
from eventlib.runtime.parking.control import ResumeRequested


@dataclass(frozen=True, slots=True)
class PausePreview:
    """What waits, or would; `released` is what a key's inputs would come to that wait since it was paused.

    `token` names what it has shown: with it the act is refused when that has changed.
    """

    waits: WhatWaits
    released: Preview | None = None
    token: str = ""


async def preview_pause(
    log: EventLog, target: PauseTarget, act: Literal["pause", "resume"], numbers: Numbers | None = None
) -> PausePreview:
    """Return what a pause or a resume would come to now. Guarantee: writes nothing. Raises: as the act."""
    trial = await dry_run_of(log, [log.choreography.service(target.service)], may_be_masked=True)
    if act == "pause":
        await pause(trial, target, "", "a preview", numbers)
    else:
        await resume(trial, target, "", "a preview")
    waits, released = await what_waits(log, target), None
    if act == "resume" and target.key is not None:
        of_key = [each for each in await parkings(log, {target.key}) if each.is_paused]
        since = [each for each in of_key if (each.service, each.decider) == (target.service, target.decider)]
        commands = [Command(each, ResumeRequested(*target.fields)) for each in since]
        released = next(iter(await preview_commands(log, trial, commands)), None)
    shown = target, numbers or Numbers(), waits, "" if released is None else released.position
    return PausePreview(waits, released, token_of(act, *shown))


async def refuse_changed(
    log: EventLog,
    target: PauseTarget,
    act: Literal["pause", "resume"],
    as_previewed: str,
    numbers: Numbers | None = None,
) -> None:
    """Refuse a pause or a resume whose preview has shown something else. Raises: ContractError."""
    if as_previewed:
        refuse_moved(as_previewed, (await preview_pause(log, target, act, numbers)).token)
