"""What is paused on a log: by what tasks have noted, and by the requests that they have not taken up yet."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime
from typing import NamedTuple

from eventlib.errors import ContractError
from eventlib.eventlog import EventLog
from eventlib.ground.arguments import did_you_mean
from eventlib.limits import in_words
from eventlib.log.reading import records_between
from eventlib.model.event import contract_of
from eventlib.model.record import Record
from eventlib.model.service import Service
from eventlib.queries.state import partition_of
from eventlib.queries.task_metadata import TaskNotes
from eventlib.runtime.parking.control import PauseRequest, PauseRequested, ResumeRequested, request_in
from eventlib.runtime.records import Pause
from eventlib.values import from_ms


class PauseTarget(NamedTuple):
    """What is paused: a service, one of its deciders, a kind of effect (the requests of a type), or a decider's key.

    Or a limit of its effects, which has other numbers meanwhile.
    """

    service: str
    decider: str = ""
    key: str | None = None
    effect: str = ""
    limit: str = ""

    @classmethod
    def of(
        cls,
        log: EventLog,
        service: str,
        *,
        decider: str | None = None,
        key: str | None = None,
        effect: str | None = None,
        limit: str | None = None,
    ) -> "PauseTarget":
        """Return what an operator names. Raises: WiringError for an unknown service or decider; ContractError."""
        found = log.choreography.service(service)
        names = [each.name for each in found.deciders]
        if limit is not None:
            if (decider, key, effect) != (None, None, None):
                raise ContractError("name a limit, or what is paused, not both")
            if limit not in found.limits:
                has = f"it limits {', '.join(found.limits)}" if found.limits else "it has none"
                raise ContractError(
                    f"{service} declares no limit of {limit!r}: {did_you_mean(limit, found.limits)}{has}"
                )
            return cls(service, limit=limit)
        if effect is not None and (decider is not None or key is not None):
            raise ContractError("name an effect, or a decider (with a key or without), not both")
        if decider is not None and decider not in names:
            raise ContractError(
                f"{service} has no decider {decider!r}: {did_you_mean(decider, names)}it has {', '.join(names)}"
            )
        if key is not None and decider is None:
            if len(names) > 1:
                raise ContractError(f"{service} has several deciders: name the one whose key it is, {', '.join(names)}")
            decider = names[0]
        kinds = sorted(contract_of(request).type for each in found.deciders for request in each.effects)
        if effect is not None and effect not in kinds:
            has = f"its effects are those of {', '.join(kinds)}" if kinds else "it has none"
            raise ContractError(f"{service} has no effect for {effect!r}: {did_you_mean(effect, kinds)}{has}")
        return cls(service, decider or "", key, effect or "")

    @classmethod
    def about(cls, service: str, pause: "Pause | PauseRequest") -> "PauseTarget":
        """Return what a pause, or a request for one, is about."""
        return cls(service, pause.decider, pause.key if pause.kind == "key" else None, pause.effect, pause.limit)

    @property
    def kind(self) -> str:
        """One of service, decider, effect, key, limit."""
        if self.limit:
            return "limit"
        if self.effect:
            return "effect"
        return "key" if self.key is not None else "decider" if self.decider else "service"

    @property
    def fields(self) -> tuple[str, str, str, str]:
        """Its names in a request: kind, decider, key, effect."""
        return self.kind, self.decider, self.key or "", self.effect

    def partitions(self, service: Service) -> list[int]:
        """Return the tasks that it concerns: all of its service, or that of its key."""
        return [*range(service.partitions)] if self.key is None else [partition_of(service, self.key)]

    def covers(self, decider: str, key: str, effect: str) -> bool:
        """Tell whether a decider's key, or an effect of it by its request's type, is a part of it."""
        match self.kind:
            case "limit":
                return False
            case "effect":
                return effect == self.effect
            case "key":
                return (decider, key) == (self.decider, self.key)
            case "decider":
                return decider == self.decider
            case _:
                return True

    def __str__(self) -> str:
        match self.kind:
            case "service":
                return f"service {self.service}"
            case "limit":
                return f"limit {self.limit} of {self.service}"
            case "effect":
                return f"effect {self.effect} of {self.service}"
            case "key":
                return f"key {self.key} of {self.decider}"
            case _:
                return f"decider {self.decider} of {self.service}"


@dataclass(frozen=True, slots=True)
class Paused:
    """Something that is paused, since when, by whom, and why.

    `tasks` counts the tasks that hold it back, `asked` those that have not taken the request up yet: they do when they
    run. `is_ending` tells that all of them have been told to go on. `allows` are the numbers of a limit.
    """

    target: PauseTarget
    since: datetime
    by: str
    reason: str
    tasks: int = 0
    asked: int = 0
    is_ending: bool = False
    allows: str = ""

    @property
    def state(self) -> str:
        """What it is, in words."""
        return f"is set to {self.allows}" if self.allows else "is paused"


async def pauses(log: EventLog, services: Iterable[str] | None = None) -> list[Paused]:
    """Return what is paused, the oldest first; of some services, or of all. Cost: see `TaskNotes`."""
    wanted = None if services is None else set(services)
    every = [each for each in log.choreography.services if wanted is None or each.name in wanted]
    notes = TaskNotes(log, [(service, partition) for service in every for partition in range(service.partitions)])
    await notes.refresh()
    return await pauses_in(log, notes)


async def pauses_in(log: EventLog, notes: TaskNotes) -> list[Paused]:
    """Return what is paused by what tasks have noted, and by the requests to them since."""
    found = dict[PauseTarget, Paused]()
    for service, partition in notes.tasks:
        held = {PauseTarget.about(service.name, each): each for each in await notes.pauses(service, partition)}
        for target, pause in held.items():
            new = Paused(target, from_ms(pause.since_ms), pause.by, pause.reason, allows=_allowed(pause))
            known = found.setdefault(target, new)
            found[target] = replace(known, tasks=known.tasks + 1)
        last = {
            PauseTarget.about(service.name, request): (record, request)
            for record, request in await _asked(log, notes, service, partition)
        }
        for target, (record, request) in last.items():
            ends = isinstance(request, ResumeRequested)
            is_set_anew = bool(target.limit) and not ends
            if ends is not (target in held) and not is_set_anew:
                continue  # it changes nothing
            new = Paused(target, from_ms(record.timestamp_ms), request.by, request.reason, allows=_allowed(request))
            known = new if is_set_anew and target in held else found.setdefault(target, new)
            asked, tasks = (found[target].asked, found[target].tasks) if target in found else (0, 0)
            found[target] = replace(known, asked=asked + 1, tasks=tasks, is_ending=ends)
    return sorted(found.values(), key=lambda each: (each.since, each.target.service, str(each.target)))


def _allowed(pause: Pause | PauseRequest) -> str:
    """Return the numbers of a limit that an operator has set, as text."""
    if pause.kind != "limit" or isinstance(pause, ResumeRequested):
        return ""
    return in_words(pause.per_second, pause.burst, pause.concurrent)


async def _asked(
    log: EventLog, notes: TaskNotes, service: Service, partition: int
) -> list[tuple[Record, PauseRequest]]:
    """Return the requests about pauses that a task has not taken up yet."""
    place = service.control.name, partition
    if place[0] not in await log.port.topics():
        return []
    positions = await notes.positions(service, partition)
    first = max(0 if positions is None else positions.next.get(place[0], 0), await log.port.start(*place))
    found = list[tuple[Record, PauseRequest]]()
    async for record in records_between(log.port, place, first):
        request = await request_in(record, log.codec)
        if isinstance(request, PauseRequested | ResumeRequested):
            found.append((record, request))
    return found
