"""Parked inputs continue: handled again as they are or with other data, or discarded, in one transaction."""

from collections.abc import Sequence
from typing import Any, Protocol

from eventlib.errors import UndecodableRecord
from eventlib.log.base import Log, TopicPartition
from eventlib.model.decider import Decider
from eventlib.model.event import Event
from eventlib.model.kept_error import KeptError
from eventlib.model.record import Record, key_text
from eventlib.runtime.emit import RecordBuilder
from eventlib.runtime.inputs import DAMAGE, InputReader
from eventlib.runtime.parking.parked import (
    WAITS_BEHIND,
    ParkedKeys,
    SkippedInputs,
    original_of,
    parked_facts,
    waiting_behind,
)
from eventlib.runtime.parking.pauses import Pauses
from eventlib.runtime.records import ParkedKey, Step, effect_key
from eventlib.runtime.state import TaskState
from eventlib.runtime.transaction import Discard, Edit, Release
from eventlib.runtime.transaction_builder import TransactionBuilder


class Handler(Protocol):
    """Processes inputs for a task: `InputProcessor`."""

    state: TaskState
    parked: ParkedKeys
    pauses: Pauses
    parked_topic: str
    control_topic: str
    skips: SkippedInputs
    inputs: InputReader
    builders: dict[str, RecordBuilder]
    draft: TransactionBuilder

    def is_skipped(self, record: Record, deciders: Sequence[Decider[Any]]) -> bool:
        """Pass over an input that an operator has decided to skip, or that means nothing; False when it is neither."""

    def decide(self, decider: Decider[Any], key: str, record: Record, event: Event) -> KeptError | None:
        """Handle one input for one decider; return why it could not be, or None."""

    def park(self, decider: Decider[Any], record: Record, failure: KeptError) -> None:
        """Let an input wait, and what comes later for its key."""

    def park_ahead(self, decider: Decider[Any], record: Record) -> None:
        """Park an input that is dated too far ahead of the clock."""

    def wait(self, parked: ParkedKey, record: Record, failure: KeptError) -> None:
        """Let a key wait from one of its inputs on."""


def released(handler: Handler, release: Release) -> None:
    """Handle what was parked again, until something cannot be handled again.

    Guarantee: a key's inputs are handled in their order, each once; a request about an input that is no longer the
    first of its key changes nothing.
    """
    if release.refusal is not None:
        handler.draft.steps.act(release.refusal)
        return
    if release.hold is not None:
        about = release.hold.pause
        handler.pauses.apply(release.hold, handler.parked.get(about.decider, about.key), handler.draft.at_ms)
    if release.waiting:
        _Released(handler, release).go_on()
    elif release.effect_id:
        _release_effect(handler, release)


def _release_effect(handler: Handler, release: Release) -> None:
    request_id, amendment = release.effect_id, release.amendment
    waits = handler.state.get(effect_key(request_id))
    if waits is None or not waits.headers or isinstance(amendment, Edit):
        return
    decider_name, key = (waits.source or "").partition("/")[2], waits.subject or ""
    if isinstance(amendment, Discard):
        handler.state.put(effect_key(request_id), None)
        act = Step("discard", decider=decider_name, key=key, detail=amendment.why, request=request_id)
    else:
        again = waits.replace(headers=())
        handler.state.put(effect_key(request_id), again)
        handler.draft.requested.append((again, None))
        act = Step("release", decider=decider_name, key=key, request=request_id)
    handler.draft.steps.act(act)


class _Released:
    """A key's inputs that wait, one after the other; the amendment is about the first one."""

    def __init__(self, handler: Handler, release: Release) -> None:
        self._handler = handler
        self._waiting = release.waiting
        self._amendment = release.amendment
        self._repaired = release.repaired
        facts, self._first = original_of(release.waiting[0])
        self._decider = handler.builders[facts["decider"]].decider
        self._key = key_text(self._first)

    def go_on(self) -> None:
        amendment, handler = self._amendment, self._handler
        if amendment is not None and (not self._first.topic or amendment.event_id != self._first.event_id):
            # A deadline, which follows from the state; or another input is the first by now.
            self._refuse(amendment)
            return
        handler.parked.remove(self._decider.name, self._key)
        handler.state.look_at_deadlines()
        for position, parked in enumerate(self._waiting):
            facts, record = original_of(parked)
            if not record.topic:
                continue  # a deadline: it falls due again by itself, now that its key is released
            failure = self._handle(parked, record, amendment if position == 0 else None, facts.get(DAMAGE))
            if failure is not None:
                edited = amendment.offset if isinstance(amendment, Edit) and position == 0 else -1
                since_ms, count = int(facts["since_ms"]), len(self._waiting) - position
                name = self._decider.name, self._key
                handler.wait(ParkedKey(*name, parked.offset, count, since_ms, failure.reason, edited), record, failure)
                return

    def _refuse(self, amendment: Edit | Discard) -> None:
        if amendment.offset >= 0:  # in a run beside the service no caller waits for an answer
            place, name = (
                (self._handler.control_topic, amendment.offset, amendment.offset),
                (self._decider.name, self._key),
            )
            self._handler.draft.steps.act(Step("refuse", *place, *name, _NOT_FIRST, amendment.event_id))

    def _handle(
        self, parked: Record, record: Record, amendment: Edit | Discard | None, damage: str | None
    ) -> KeptError | None:
        steps, event_id = self._handler.draft.steps, record.event_id
        place, name = (self._handler.parked_topic, parked.offset), (self._decider.name, self._key)
        match amendment:
            case Discard(offset, why=why):
                steps.act(Step("discard", *place, offset, *name, why, event_id))
                return None
            case Edit(offset, why=why):
                steps.act(Step("edit", *place, offset, *name, why, event_id))
            case None:
                steps.act(Step("release", *place, parked.offset, *name))
                if parked.offset in self._repaired:
                    return self._take_up(self._repaired[parked.offset])
                if damage is not None:  # its bytes are not those that were written, even where they can be read
                    return KeptError(damage)
        if (self._handler.skips.any or record.value is None) and self._handler.is_skipped(record, [self._decider]):
            return None
        return self._decide(edited(record, amendment), record)

    def _take_up(self, written: Record) -> KeptError | None:
        """Handle an input that was damaged, as it was written; its key may not have been known when it was parked."""
        key = key_text(written)
        if self._decider not in (self._handler.inputs.deciders_of(written) or ()):
            return None  # what was damaged had hidden that it is passed over
        if written.timestamp_ms > self._handler.draft.latest_ms and written.topic not in self._handler.inputs.external:
            self._handler.park_ahead(self._decider, written)
            return None
        if key == self._key:
            return self._decide(written, written)
        waits = self._handler.parked.get(self._decider.name, key)
        failure = KeptError(WAITS_BEHIND) if waits else self._decide(written, written, key)
        if failure is not None:
            self._handler.park(self._decider, written, failure)
        return None

    def _decide(self, shown: Record, record: Record, key: str | None = None) -> KeptError | None:
        """Handle what a record shows; an edited one as the input that it was, so that its caller can repeat it."""
        try:
            read, event = self._handler.inputs.read(shown)
        except UndecodableRecord as error:
            return KeptError(error.reason)
        if type(event) not in self._decider.handlers:
            return None
        return self._handler.decide(self._decider, key or self._key, read if shown is record else record, event)


_NOT_FIRST = "another input stands first"


def edited(record: Record, edit: Edit | None) -> Record:
    """Return a parked input with the data of an edit. The copy gets no location, so it cannot be mistaken for the original."""
    return record if edit is None else record.replace(offset=-1, type=edit.type, value=edit.value)


_CHUNK = 1_000
_MOST_BYTES = 20_000_000


class WaitingInputs:
    """The parked inputs of one task, by key, for as long as keys are released one after the other.

    Memory is bounded: what does not fit is read for each key again.
    """

    def __init__(self, log: Log, place: TopicPartition) -> None:
        self._log = log
        self._place = place
        self._by_name: dict[tuple[str, str], list[Record]] = {}
        self._first = self._next = -1
        self._bytes = 0

    def forget(self) -> None:
        """Give the memory back."""
        if self._first >= 0:
            self._by_name = {}
            self._first = self._next = -1
            self._bytes = 0

    async def behind(self, parked: ParkedKey) -> Sequence[Record]:
        """Return the inputs of a parked key that wait, in order."""
        if self._first < 0 or parked.first < self._first:
            self.forget()
            self._first = self._next = parked.first
        while len(found := self._waiting(parked)) < parked.count:
            if self._bytes > _MOST_BYTES or not await self._read_on():
                return await waiting_behind(parked, self._place, self._log)
        return found

    def _waiting(self, parked: ParkedKey) -> list[Record]:
        known = self._by_name.get((parked.decider, parked.key), [])
        return [record for record in known if record.offset >= parked.first][: parked.count]

    async def _read_on(self) -> bool:
        records = await self._log.read(*self._place, self._next, _CHUNK)
        for record in records:
            name = parked_facts(record)["decider"], key_text(record)
            self._by_name.setdefault(name, []).append(record)
            self._bytes += len(record.value or b"") + _OVERHEAD_BYTES
            self._next = record.offset + 1
        return bool(records)


_OVERHEAD_BYTES = 1_000
"""The approximate size of a record without its value."""
