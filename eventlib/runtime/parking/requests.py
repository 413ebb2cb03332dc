"""Reads the requests on a task's control topic, with the parked records that they name, and makes releases of them."""

import logging

from eventlib.errors import DamagedRecord, UndecodableRecord
from eventlib.eventlog import EventLog
from eventlib.model.record import Record
from eventlib.runtime.inputs import repaired_among
from eventlib.runtime.parking.control import (
    ParkedInputDiscarded,
    ParkedInputEdited,
    PauseRequested,
    Request,
    ResumeRequested,
    amendment_in,
    edit_at,
    hold_in,
    request_in,
)
from eventlib.runtime.parking.releasing import WaitingInputs
from eventlib.runtime.records import ParkedKey, Pause, Step
from eventlib.runtime.task import Task
from eventlib.runtime.transaction import Edit, Hold, Release

_log = logging.getLogger(__name__)

_AT_ONCE = 500


class OperatorRequests:
    """The requests of operators to one task."""

    def __init__(self, task: Task, log: EventLog) -> None:
        self._task = task
        self._log = log
        self._place = task.service.control.name, task.partition
        self._inputs = WaitingInputs(log.port, (task.service.parked.name, task.partition))

    def forget(self) -> None:
        """Give memory back: the next record is not a request."""
        self._inputs.forget()

    async def waiting(self) -> list[Record]:
        """Return requests that the task has not taken up, in order: all but for a damaged one, and hundreds."""
        try:
            return await self._log.port.read(*self._place, self._task.positions.next[self._place[0]], _AT_ONCE)
        except DamagedRecord:  # the reader of this partition meets it too
            return []

    async def release(self, control: Record) -> Release:
        """Collect what a request is about: parked inputs, a parked effect, or a pause."""
        try:
            request = await request_in(control, self._log.codec)
        except UndecodableRecord as error:
            _log.warning("%s: nothing is done about it", error)
            return Release(control)
        parked = self._task.processor.parked.get(request.decider, request.key)
        if isinstance(request, PauseRequested | ResumeRequested):
            return await self.hold(control, hold_in(request))
        amendment = amendment_in(request, control.offset)
        if parked is None:
            return Release(control, effect_id=request.key, amendment=amendment)
        if why := self._task.processor.pauses.why_unhandled(request.decider, request.key):
            return Release(control, refusal=_refusal(control, request, why))
        waiting = await self._inputs.behind(parked)
        amendment = amendment or await self._edited_before(parked)
        return Release(control, waiting, amendment=amendment, repaired=await repaired_among(waiting, self._log.port))

    async def hold(self, control: Record, hold: Hold) -> Release:
        """Return a pause that begins or ends; a resumed key is released, unless it was parked before."""
        pauses, about = self._task.processor.pauses, hold.pause
        pause = pauses.of_key(about.decider, about.key) if about.kind == "key" else None
        parked = self._task.processor.parked.get(about.decider, about.key)
        if not hold.ends or pause is None or parked is None or parked.first == pause.parked_before:
            return Release(control, hold=hold)
        if why := pauses.why_unhandled(about.decider):
            return Release(control, refusal=_refusal(control, about, why))
        waiting = await self._inputs.behind(parked)
        return Release(control, waiting, hold=hold, repaired=await repaired_among(waiting, self._log.port))

    async def _edited_before(self, parked: ParkedKey) -> Edit | None:
        """Return the edit with which a key's first input was tried before."""
        return None if parked.edited < 0 else await edit_at(self._log, self._place, parked.edited)


def _refusal(control: Record, request: Request | Pause, why: str) -> Step:
    event_id = request.event_id if isinstance(request, ParkedInputEdited | ParkedInputDiscarded) else ""
    return Step("refuse", control.topic, control.offset, control.offset, request.decider, request.key, why, event_id)
