"""What the code of this process would make of a command about what is parked: the runtime handles it in a dry run."""

from collections import defaultdict
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal

from eventlib.errors import ContractError, EventlibError
from eventlib.eventlog import EventLog
from eventlib.json_form import json_text
from eventlib.model.event import Event, contract_of
from eventlib.model.record import Record
from eventlib.operations.dry_run import TaskParts, dry_run_of, masks, token_of
from eventlib.operations.parked_commands import (
    Command,
    control_records,
    is_paused,
    paused_among,
)
from eventlib.operations.seek import handled
from eventlib.queries.parked import Parking, waiting_inputs
from eventlib.runtime.parking.control import ParkedInputEdited
from eventlib.runtime.parking.requests import OperatorRequests
from eventlib.runtime.records import JournalEntry, Step, effect_key, parked_key, request_key, state_key
from eventlib.runtime.task import Task
from eventlib.runtime.transaction import Inputs, Transaction
from eventlib.values import now_ms

Prospect = Literal["is handled", "is discarded", "parks again", "asks again", "changes nothing", "unknown"]
_WOULD: dict[Prospect, str] = {
    "is handled": "be handled",
    "is discarded": "be discarded",
    "parks again": "park again",
    "asks again": "ask outside again",
    "changes nothing": "change nothing",
    "unknown": "come to what is not known",
}
MASKED = "personal fields are masked here: the service, which reads them, may decide otherwise"


@dataclass(frozen=True, slots=True)
class Preview:
    """What a command about a parked key or effect would come to, as the log is now.

    `emitted` are the events of all inputs that would be handled, in order, and `records` theirs. `handled` counts these
    inputs, of `waiting`; `requested` are the effects that would run. `overdue` are the events of deadlines that fell due
    while it waited: they pass next, unless an answer comes first.
    `reason` says why it parks again, or why that is not known: an effect asks the outside world, which is not asked here.
    `position` names what it was found at. `doubt` says why the service may decide otherwise; empty: no reason is known.
    """

    parking: Parking
    prospect: Prospect
    handled: int = 0
    waiting: int = 0
    emitted: Sequence[Event] = ()
    records: Sequence[Record] = field(default=(), repr=False)
    requested: Sequence[str] = ()
    overdue: Sequence[Event] = ()
    reason: str = ""
    traceback: str = ""
    doubt: str = ""
    position: str = ""

    @property
    def would(self) -> str:
        """What it would do, in words: be handled, park again, …."""
        return _WOULD[self.prospect]


def token_of_previews(found: Sequence[Preview]) -> str:
    """Return what names previews, by the positions that they were made at."""
    return token_of("parked", *sorted(each.position for each in found))


def unknown(parking: Parking, why: EventlibError) -> Preview:
    """Return the preview of what cannot be known, with the reason."""
    return Preview(parking, "unknown", waiting=parking.waiting, reason=str(why))


async def preview_each(
    log: EventLog,
    found: Sequence[Parking],
    command_of: Callable[[EventLog, Parking], Awaitable[Command]],
    *,
    refuses: bool = False,
) -> list[Preview]:
    """Return what would come of a command about each, by itself; `command_of` makes it, on a dry run of the log.

    Guarantee: writes nothing, and asks nothing outside; what then happens is the same, unless the log has moved on, or
    the service runs other code. What cannot be known is `unknown`, with the reason, as for what is paused.
    Raises: LogUnavailable and the like; where it `refuses`, what `command_of` raises.
    """
    services = [log.choreography.service(name) for name in sorted({each.service for each in found})]
    trial, held = await dry_run_of(log, services, may_be_masked=True), await paused_among(log, found)
    known, commands = dict[tuple[str, str, str], Preview](), list[Command]()
    for each in found:
        try:
            command = await command_of(trial, each)
        except ContractError as error:
            if refuses:
                raise
            known[each.name] = unknown(each, error)
            continue
        if each.name in held:
            known[each.name] = unknown(each, is_paused(held[each.name]))
        else:
            commands.append(command)
    known |= {each.parking.name: each for each in await preview_commands(log, trial, commands)}
    return [known[each.name] for each in found]


async def preview_commands(log: EventLog, trial: EventLog, commands: Sequence[Command]) -> list[Preview]:
    """Return what would come of commands on a log's dry run, each by itself."""
    tasks = defaultdict[tuple[str, int], list[tuple[Command, Record]]](list)
    for command, record in zip(commands, await control_records(trial, commands), strict=True):
        tasks[command.parking.service, command.parking.partition].append((command, record))
    found = list[Preview]()
    for (name, partition), of_task in tasks.items():
        service = trial.choreography.service(name)
        parts = TaskParts(trial, service, partition)
        await parts.read(_state(command.parking) for command, _ in of_task)
        end = await trial.port.end(service.control.name, partition)
        for command, record in of_task:
            await parts.read_requests(_state(command.parking), await _requests(trial, command.parking))
            try:
                found.append(await _Trial(trial, command, parts, doubts=masks(log)).run(record.placed(end)))
            except ContractError as error:  # a state that today's code cannot read
                found.append(unknown(command.parking, error))
    return found


def _state(parking: Parking) -> str:
    return state_key(parking.decider, parking.key)


async def _requests(log: EventLog, parking: Parking) -> list[str]:
    """Return the changelog keys that the inputs behind a parked key have, if they were answered before."""
    waiting = await waiting_inputs(log, parking) if parking.id is None else []
    return [request_key(parking.decider, parking.key, each.record.event_id) for each in waiting]


class _Trial:
    """One command, handled by a task that knows of its key only."""

    def __init__(self, log: EventLog, command: Command, parts: TaskParts, *, doubts: bool) -> None:
        self._log = log
        self._command = command
        self._parking = command.parking
        self._parts = parts
        self._decider = log.choreography.decider(command.parking.decider)
        self._doubts = doubts and self._decider.is_personal
        self._transactions: list[Transaction] = []

    async def run(self, control: Record) -> Preview:
        parking, now = self._parking, now_ms()
        notes = [parked_key(parking.decider, parking.key), effect_key(parking.id or "")]
        task = await self._parts.task([_state(parking), *notes])
        release = await OperatorRequests(task, self._log).release(control)
        self._transactions.append(await handled(self._log, task, Inputs(now, release=release)))
        if parking.id is None and not release.refusal:
            await self._pass_deadlines(task, now)
        position = token_of(
            *(type(self._command.request).__name__, parking.name, parking.first, parking.waiting, parking.edited),
            *(self._parts.offset(_state(parking)), self._edited()),
        )
        return self._seen(task, position)

    def _edited(self) -> str:
        """Return the data of an edit; its bytes differ from one dry run to the next where fields are encrypted."""
        request = self._command.request
        if not isinstance(request, ParkedInputEdited):
            return ""
        event_type = self._log.choreography.event(request.type)
        return json_text(self._log.codec.decode(event_type, request.data))

    async def _pass_deadlines(self, task: Task, now: int) -> None:
        """Let deadlines pass that fell due while the key was parked: that is what the task does next."""
        first = self._transactions[0]
        task.committed(first, range(1, len(first.records) + 1))
        due = task.next_due_ms(now)
        if due is not None and due <= now:
            self._transactions.append(await handled(self._log, task, Inputs(now, due_ms=now)))

    def _seen(self, task: Task, position: str) -> Preview:
        parking, steps = self._parking, self._steps()
        kinds = [each.kind for each in steps]
        parks = [each for each in steps if each.kind == "park"]
        tried = kinds.count("release") + kinds.count("edit")
        handled_count = max(0, tried - kinds.count("drop") - len([each for each in parks if each.topic]))
        first, *later = self._transactions
        emitted = [pair for pair in zip(first.emitted, first.events, strict=True) if pair[0] is not None]
        prospect, reason = self._prospect(kinds, [*parks, *(each for each in steps if each.kind == "refuse")])
        parked = task.processor.parked.get(parking.decider, parking.key) if parks else None
        return Preview(
            parking,
            prospect,
            handled_count if parking.id is None else 0,
            parking.waiting,
            [event for event, _ in emitted if event is not None],
            [record for _, record in emitted],
            [] if parking.id else [record.type or "" for record, _ in first.requested],
            [event for each in later for event in each.emitted if event is not None],
            reason,
            "" if parked is None else parked.traceback,
            MASKED if self._doubts else "",
            position,
        )

    def _prospect(self, kinds: Sequence[str], why: Sequence[Step]) -> tuple[Prospect, str]:
        if why:
            return ("changes nothing" if why[-1].kind == "refuse" else "parks again"), why[-1].detail
        if "discard" in kinds:
            return "is discarded", ""
        if self._parking.id is not None and "release" in kinds:
            effects = self._decider.effects.items()
            asks = (each.asks for request, each in effects if contract_of(request).type == self._parking.effect)
            return "asks again", f"{next(asks, 'the outside world')} decides: it is asked again, under the same key"
        if {"release", "edit", "deadline"} & {*kinds}:
            return "is handled", ""
        return "unknown", "nothing waits any more"

    def _steps(self) -> list[Step]:
        read = self._log.codec.decode
        entries = [read(JournalEntry, record.value or b"") for each in self._transactions for record in each.journal]
        return [step for entry in entries for step in entry.steps]
