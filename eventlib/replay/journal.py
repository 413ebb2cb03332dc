"""Reads a task's journal with every step resolved to the records that it refers to.

Uses only `read`, `start` and `end`, which every log has, and reads forwards in chunks: logs may have any length.
"""

from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Literal, NamedTuple, NoReturn

from eventlib.codec.base import UnknownSchema
from eventlib.errors import ContractError
from eventlib.eventlog import EventLog
from eventlib.log.base import TopicPartition
from eventlib.model.event import contract_of
from eventlib.model.evolution import wire_name_of
from eventlib.model.record import Record, key_text
from eventlib.model.service import Service
from eventlib.replay.input_cursor import InputCursor
from eventlib.replay.journal_steps import (
    NONE_REFUSED,
    Act,
    Answered,
    Begun,
    ClockSet,
    DeadlinePassed,
    Discarded,
    Done,
    EffectDiscarded,
    EffectReleased,
    Held,
    Input,
    Moved,
    Other,
    Refusal,
    Released,
    Skipped,
    Stalled,
    TookOver,
)
from eventlib.runtime.bootstrap import InputStart
from eventlib.runtime.inputs import as_written
from eventlib.runtime.parking.control import PauseRequested, ResumeRequested, edit_at, hold_in, request_in
from eventlib.runtime.parking.parked import original_of
from eventlib.runtime.records import JournalEntry, Step
from eventlib.runtime.transaction import Discard

_CHUNK = 2_000
_PAUSES = {wire_name_of(PauseRequested), wire_name_of(ResumeRequested)}
_ALL_KEYS = {"begin", "reset", "lose", "switch"}


class Only(NamedTuple):
    """Restricts a journal to one key of one decider."""

    decider: str
    key: str


class TaskJournal:
    """The history of one task, from the start of its journal.

    Guarantee: acts come in the task's order; inputs of a topic in offset order, each once. With `only`, transactions,
    acts and inputs of other keys are omitted; of an external topic, whose records may have another key than their events,
    all inputs are kept. With `holds`, acts include what operators paused and resumed.
    Raises: ContractError when retention has dropped the beginning of the journal or of an input.
    """

    def __init__(
        self, log: EventLog, service: Service, partition: int, only: Only | None = None, *, holds: bool = False
    ) -> None:
        self._holds = holds
        self._log = log
        self._service = service
        self._partition = partition
        self._only = only
        self._inputs: dict[str, InputCursor] = {}
        self._control = service.control.name
        self._external = log.external.topics
        self._topics = (
            None
            if only is None
            else {contract_of(e).topic.name for e in log.choreography.decider(only.decider).handlers}
        )

    async def __aiter__(self) -> AsyncIterator[Done]:
        """Yield the transactions up to the journal's current end."""
        async for record, entry in self.entries():
            acts = await self.acts(entry)
            if acts or self._only is None:
                yield Done(record.offset, entry.at_ms, entry.code_version, entry.said, acts)

    async def entries(self, first_offset: int | None = None) -> AsyncIterator[tuple[Record, JournalEntry]]:
        """Yield the journal's records up to its current end: from an offset on, or all.

        Raises: ContractError when the beginning is missing.
        """
        journal, partition, port = self._service.journal.name, self._partition, self._log.port
        offset = await port.start(journal, partition) if first_offset is None else first_offset
        end = await port.end(journal, partition)
        first = first_offset is None
        while offset < end and (records := await port.read(journal, partition, offset, min(_CHUNK, end - offset))):
            offset = records[-1].offset + 1
            for record in records:
                try:
                    entry = self._log.codec.decode(JournalEntry, record.value or b"")
                except UnknownSchema:
                    entry = await self._decoded(record)
                if first and not any(step.kind == "begin" for step in entry.steps):
                    await self._refuse(record)
                first = False
                yield record, entry

    async def _refuse(self, record: Record) -> NoReturn:
        """Refuse a journal of which this record is not the first."""
        topic_partition = record.topic, record.partition
        missing = "was dropped"
        if (start := await self._log.port.log_start(*topic_partition)) < record.offset:
            missing = f"cannot be read (`eventlib doctor --deep` names what is damaged from offset {start} on)"
        raise ContractError(
            f"the journal of {self._service.name}/{record.partition} begins in the middle, at offset {record.offset}: its "
            f"beginning {missing}, and earlier states cannot be known"
        )

    async def _decoded(self, record: Record) -> JournalEntry:
        unreadable = f"{record.topic}/{record.partition}/{record.offset} cannot be read: "
        decode = partial(self._log.codec.decode, JournalEntry, record.value or b"")
        return await self._log.codec.decode_now(decode, unreadable)

    def begin(self, topic: str, first: int) -> None:
        """Consume a topic from an offset on, as the task did when it first read it."""
        self._inputs[topic] = InputCursor(self._log, topic, self._partition, first)

    async def taken(self, topic: str, last: int) -> list[Record]:
        """Return a topic's records up to an offset that were not returned before."""
        return await self._inputs[topic].consume_to(last)

    async def next_ms(self, topic: str, counts: Callable[[Record], bool]) -> int | None:
        """Return the time of a topic's next input that counts; None if there is none, or the topic was not begun."""
        found = self._inputs.get(topic)
        return None if found is None else await found.next_ms(counts)

    async def acts(self, entry: JournalEntry) -> list[Act]:
        """Return an entry's acts. Entries must be passed in order, each once."""
        found: list[Act] = [] if not self._holds else [*await self.held(entry)]
        for step, refused in with_refusals(entry.steps):
            if step.kind == "run":
                await self._add_run(step, refused, found)
                continue
            if step.kind == "begin":
                self.begin(step.topic, step.first)
            if step.kind == "lose":
                pass_loss(self._service.name, step)
            if step.kind in {"reset", "lose"} and step.topic in self._inputs:
                self._inputs[step.topic].go_to(step.last)
            if self._only is None or self._only == (step.decider, step.key) or step.kind in _ALL_KEYS:
                found.append(await self._act(step, refused.get(step.decider)))
        return found

    async def _add_run(self, run: Step, refused: Mapping[str, Refusal], found: list[Act]) -> None:
        if run.topic == self._control or (self._topics is not None and run.topic not in self._topics):
            return
        topic = self._inputs.get(run.topic)
        if topic is None:
            raise ContractError(f"the journal of {self._service.name} consumes {run.topic}, which it never began")
        only = None if self._only is None or run.topic in self._external else self._only.key
        for record in await topic.consume_to(run.last):
            if only is None or key_text(record) == only:
                refusals = refused if record.offset == run.last else NONE_REFUSED
                found.append(Input(record, refusals, journalled=record.offset >= run.first))

    async def held(self, entry: JournalEntry) -> list[Held]:
        """Return the pauses that begin or end in a transaction; a request, refused or not, has it to itself."""
        runs = [step for step in entry.steps if step.topic == self._control]
        if not runs or any(step.kind != "run" for step in runs):
            return []
        first, last = runs[0].first, runs[-1].last
        records = await self._log.port.read(self._control, self._partition, first, last - first + 1)
        found = [each for each in records if each.offset <= last and each.type in _PAUSES]
        requests = [await request_in(each, self._log.codec) for each in found]
        return [Held(hold_in(each)) for each in requests if isinstance(each, PauseRequested | ResumeRequested)]

    async def _act(self, step: Step, refused: Refusal | None) -> Act:  # noqa: PLR0911  one return for each kind
        match step:
            case Step(kind="begin"):
                return Begun(InputStart(step.topic, step.first, step.last, step.detail))
            case Step(kind="skip"):
                return Skipped(step.request, step.detail)
            case Step(kind="reset" | "lose"):
                return Moved(step.topic, step.first, step.last, step.detail)
            case Step(kind="clock"):
                return ClockSet(step.first, step.last, step.detail)
            case Step(kind="switch"):
                return TookOver(step.topic, step.detail)
            case Step(kind="deadline"):
                return DeadlinePassed(step.decider, step.key, step.detail, step.first, refused)
            case Step(kind="answer"):
                return Answered(step.decider, step.key, step.request)
            case _:
                return await self._act_about_parked(step, refused)

    async def _act_about_parked(self, step: Step, refused: Refusal | None) -> Act:
        match step:
            case Step(kind="release" | "edit" | "discard", topic=topic) if topic:
                record = await parked_input(self._log, (topic, self._partition), step.first)
                if step.kind == "discard":
                    return Discarded(step.decider, step.key, record, Discard(step.last, step.request, step.detail))
                control = self._control, self._partition
                edit = await edit_at(self._log, control, step.last) if step.kind == "edit" else None
                return Released(step.decider, step.key, record, refused, edit)
            case Step(kind="release"):
                return EffectReleased(step.decider, step.key, step.request)
            case Step(kind="discard"):
                return EffectDiscarded(step.decider, step.key, step.request, step.detail)
            case Step(kind="stall"):
                return Stalled(step.decider, step.key, step.request, step.detail)
            case _:
                return Other(step)


async def parked_input(log: EventLog, topic_partition: TopicPartition, offset: int) -> Record:
    """Return a parked input as it is on its topic; if it was damaged and is repaired now, as it was written.

    Raises: ContractError when it is no longer there.
    """
    topic, partition = topic_partition
    records = await log.port.read(topic, partition, offset, 1)
    if not records or records[0].offset != offset:
        raise ContractError(f"{topic}/{partition}/{offset} was released, and is no longer there")
    return await as_written(records[0], log.port) or original_of(records[0])[1]


def pass_loss(service: str, step: Step) -> str:
    """Return what a replay says of inputs that were gone before the task read them.

    Raises: ContractError where those that it handled before are gone as well, since the topic was another one then.
    """
    if step.last < step.first:
        raise ContractError(
            f"{service} has handled inputs of {step.topic} that are not on the log any more ({step.detail}), so its "
            "journal cannot be replayed: leave the service out, and name the others"
        )
    return f"{service} went on without inputs that were gone before it read them: {step.detail}"


def with_refusals(steps: Sequence[Step]) -> Iterator[tuple[Step, Mapping[str, Refusal]]]:
    """Yield each step that is not a refusal, with the refusals of it by decider."""
    at = 0
    while at < len(steps):
        step = steps[at]
        at += 1
        if at == len(steps) or steps[at].kind not in _REFUSALS:
            yield step, NONE_REFUSED
            continue
        refused = dict[str, Refusal]()
        while at < len(steps) and (kind := _REFUSALS.get(steps[at].kind)) is not None:
            refused[steps[at].decider] = Refusal(kind, steps[at].detail)
            at += 1
        yield step, refused


_REFUSALS: dict[str, Literal["drop", "park"]] = {"drop": "drop", "park": "park"}
