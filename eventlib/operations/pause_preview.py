"""What a pause or a resume would come to: refused as the act is, what waits, and what a key that goes on would emit."""

from dataclasses import dataclass
from typing import Literal

from eventlib.eventlog import EventLog
from eventlib.operations.dry_run import dry_run_of
from eventlib.operations.parked_commands import Command
from eventlib.operations.parked_preview import Preview, preview_commands
from eventlib.operations.pausing import Numbers, WhatWaits, pause, resume, what_waits
from eventlib.queries.parked import parkings
from eventlib.queries.pauses import PauseTarget
from eventlib.runtime.parking.control import ResumeRequested


@dataclass(frozen=True, slots=True)
class PausePreview:
    """What waits, or would; `released` is what a key's inputs would come to that wait since it was paused."""

    waits: WhatWaits
    released: Preview | None = None


async def preview_pause(
    log: EventLog, target: PauseTarget, act: Literal["pause", "resume"], numbers: Numbers | None = None
) -> PausePreview:
    """Return what a pause or a resume would come to now. Guarantee: writes nothing. Raises: as the act."""
    trial = await dry_run_of(log, [log.choreography.service(target.service)], may_be_masked=True)
    if act == "pause":
        await pause(trial, target, "", "a preview", numbers)
    else:
        await resume(trial, target, "", "a preview")
    waits = await what_waits(log, target)
    if act == "pause" or target.key is None:
        return PausePreview(waits)
    of_key = [each for each in await parkings(log, {target.key}) if each.is_paused]
    since = [each for each in of_key if (each.service, each.decider) == (target.service, target.decider)]
    commands = [Command(each, ResumeRequested(*target.fields)) for each in since]
    return PausePreview(waits, next(iter(await preview_commands(log, trial, commands)), None))
