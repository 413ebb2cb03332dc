"""The moment at which a saga that is under way stands, for the exhaustive search: brought from a log onto the stage."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from eventlib.codec.base import LostSchema
from eventlib.errors import ContractError, DamagedRecord, EventlibError
from eventlib.eventlog import EventLog
from eventlib.invariants import Violation
from eventlib.model.decider import Decider
from eventlib.model.record import Record
from eventlib.proof.damage import Doubts
from eventlib.proof.past_effects import NotExplorable, with_past_effects
from eventlib.proof.under_way import SagaUnderWay, TaskName, UnderWay
from eventlib.runtime.inputs import DAMAGE
from eventlib.runtime.parking.parked import original_of, parked_facts
from eventlib.runtime.records import changelog_key, parked_key
from eventlib.runtime.transaction import Inputs, Release
from eventlib.simulation.exhaustive.moment import Moment, put
from eventlib.simulation.exhaustive.steps import Steps
from eventlib.simulation.exhaustive.tasks import State, canonical
from eventlib.simulation.stage import Stage


class CannotGoOn(Exception):
    """A saga that the current code cannot go on with, and why."""


class Translated:
    """Records of a log with their values written again as the stage's log has them: its schemas have other ids."""

    def __init__(self, log: EventLog, stage_log: EventLog) -> None:
        self._log = log
        self._stage_log = stage_log

    async def event(self, record: Record) -> Record:
        """Return a record with an event. Raises: ContractError when the current code cannot read it."""
        if record.topic in self._log.external.topics or record.value is None:
            return record
        event = await self._log.decode_now(record)
        if event is None:
            raise ContractError(f"the current code has no event {record.type}")
        return record.replace(value=self._stage_log.codec.encode(event))

    async def state(self, decider: Decider[object], record: Record) -> Record:
        """Return a record with a state. Raises: ContractError when the current code cannot read it."""
        if not record.value:
            return record
        value = record.value
        state = await self._log.codec.decode_now(lambda: self._log.codec.decode(decider.state, value))
        return record.replace(value=self._stage_log.codec.encode(state))


@dataclass
class Prepared(SagaUnderWay):
    """A saga's records, and the states that it shares, as the stage's log has them.

    `broken` is why the current code cannot go on with it, `unknown` why what it has still to do is not known.
    """

    broken: str = ""
    unknown: str = ""

    @cached_property
    def size(self) -> int:
        """How large it is: of sagas that are alike, the smallest is explored."""
        records = [*self.events, *(r for known in self.knows.values() for r in known.values())]
        return sum(len(record.value or b"") + 1 for record in records)


class Preparing:
    """Prepares sagas of one log for one stage; `lost` is whether something was written with a schema that may be damaged."""

    def __init__(self, log: EventLog, stage: Stage, found: UnderWay, doubts: Doubts) -> None:
        self._doubts = doubts
        self._stage_log = stage.set(lambda: 0)
        self._translated = Translated(log, self._stage_log)
        self._deciders = {
            (service.name, decider.name): decider for service in stage.played.services for decider in service.deciders
        }
        self._found = found
        self.lost = False

    async def all(self) -> list[Prepared]:
        """Prepare every saga."""
        return [await self._prepared(saga) for saga in self._found.sagas.values()]

    async def shared(self) -> dict[TaskName, dict[str, Record | None]]:
        """Return the shared states; None for one that the current code cannot read."""
        found: dict[TaskName, dict[str, Record | None]] = {}
        for task, records in self._found.shared.items():
            for name, record in records.items():
                try:
                    found.setdefault(task, {})[name] = await self._record(task[0], name, record)
                except EventlibError as error:
                    self._note_lost(error)
                    found.setdefault(task, {})[name] = None
        return found

    async def _prepared(self, saga: SagaUnderWay) -> Prepared:
        made = Prepared(saga.key)
        for record in saga.events:
            try:
                made.events.append(await self._translated.event(record))
            except EventlibError as error:
                self._note_lost(error)
                made.unknown = f"an event of its past cannot be read: {error}"
        try:
            await self._fill(saga, made)
        except EventlibError as error:
            if self._note_lost(error):
                made.unknown = f"what it knows cannot be read: {error}"
            else:
                made.broken = str(error)
        made.unknown = made.unknown or self._doubts.about(saga)
        return made

    def _note_lost(self, error: EventlibError) -> bool:
        """Return whether a schema that may be damaged is why something cannot be read, and remember that."""
        is_lost = isinstance(error, DamagedRecord | LostSchema)
        self.lost = self.lost or is_lost
        return is_lost

    async def _fill(self, saga: SagaUnderWay, made: Prepared) -> None:
        for task, known in saga.knows.items():
            made.knows[task] = {name: await self._record(task[0], name, record) for name, record in known.items()}
        for place, records in saga.waiting.items():
            made.waiting[place] = [await self._translated.event(record) for record in records]
        for task, note, records in saga.parked:
            for record in records:
                if DAMAGE in parked_facts(record):
                    made.unknown = f"what is parked for {note.decider} is damaged"
            if note.edited >= 0:
                made.unknown = f"what is parked for {note.decider} was edited"
            name = parked_key(note.decider, note.key)
            value = self._stage_log.codec.encode(note)
            made.knows.setdefault(task, {})[name] = Record("", task[1], -1, 0, name.encode(), value, subject=note.key)
            made.parked.append((task, note, [await self._parked(record) for record in records]))

    async def _parked(self, record: Record) -> Record:
        _, original = original_of(record)
        if not original.topic:  # a deadline, which is no event
            return record
        return record.replace(value=(await self._translated.event(original)).value)

    async def _record(self, service: str, name: str, record: Record) -> Record:
        about = changelog_key(name)
        if about.kind == "effect":
            return (await self._translated.event(record)).replace(headers=())  # a parked one is tried again
        decider = self._deciders.get((service, about.decider)) if about.kind == "state" else None
        return record if decider is None else await self._translated.state(decider, record)


def begin(steps: Steps, saga: Prepared) -> tuple[list[Moment], list[str]]:
    """Return the moments at which a saga may stand, and what a person does first: what is parked is tried again.

    There are several where external systems that have answered alike may still do different things: one that accepted a
    request has decided on it, and what it decided is not known before it reports.

    Raises: NotExplorable; CannotGoOn when the code cannot.
    """
    if saga.unknown:
        raise NotExplorable(saga.unknown)
    if saga.broken:
        raise CannotGoOn(saga.broken)
    tasks = steps.tasks
    moment = steps.first._replace(at_ms=saga.at_ms)
    for task, known in saga.knows.items():
        for name, record in known.items():
            if changelog_key(name).kind == "effect" and (task[0], record.type or "") not in steps.effects:
                raise CannotGoOn(f"the effect for {record.type} is pending, and the current code has none")
        moment = moment._replace(knows=put(moment.knows, task, tasks.know(known)))
    for place, records in saga.waiting.items():
        numbers = tuple(tasks.number(record) for record in records)
        moment = moment._replace(waiting=put(moment.waiting, place, numbers))
    events = [tasks.number(record) for record in saga.events]
    seen, violations = steps.verdicts.after(moment.seen, events, [*_states(steps, saga)])
    _refuse_broken(violations)
    moment = moment._replace(seen=seen, idle=steps.idle(moment, moment.waiting))
    found = [_released(steps, saga, each) for each in with_past_effects(steps, saga.events, moment)]
    return [each for each, _ in found], found[0][1]


def _refuse_broken(violations: Sequence[Violation]) -> None:
    if violations:
        raise CannotGoOn(f"its past has broken an invariant already: {violations[0]}")


def _states(steps: Steps, saga: Prepared) -> Iterator[State]:
    deciders = {decider.name: decider for service in steps.stage.played.services for decider in service.deciders}
    for known in saga.knows.values():
        for name, record in known.items():
            about = changelog_key(name)
            if about.kind == "state" and record.value and (decider := deciders.get(about.decider)):
                state = steps.log.codec.decode(decider.state, record.value)
                yield State(decider.name, about.key, state, canonical((name, state)))


def _released(steps: Steps, saga: Prepared, moment: Moment) -> tuple[Moment, list[str]]:
    """Try again what is parked. Raises: CannotGoOn when it stays so."""
    story = list[str]()
    for task, note, waiting in saga.parked:
        story.append(f"a person retries {note.decider} {note.key}")
        known = dict(moment.knows).get(task, 0)
        made = steps.tasks.make(task, known, Inputs(moment.at_ms, release=Release(None, waiting)))
        if made.parked is not None and (made.parked.decider, made.parked.key) == (note.decider, note.key):
            raise CannotGoOn(f"{note.decider} {note.key} is parked, and a retry does not help: {made.parked.reason}")
        moment = steps.made(story[-1], moment, task, made._replace(parked=None)).moment
    return moment, story
