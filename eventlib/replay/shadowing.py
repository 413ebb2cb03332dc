"""Decides beside a task that runs, with the current code, what that task decides; its records come from a reader.

A task's millisecond is decided again once all of its records were read: journal entries, outputs and states. States are those
of the changelog, so that each decision and each state is compared with what was recorded, and a difference counts once.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from eventlib.errors import ContractError
from eventlib.eventlog import EventLog
from eventlib.json_form import json_of
from eventlib.log.base import TopicPartition
from eventlib.log.reading import records_between
from eventlib.model.decider import Decider
from eventlib.model.record import Record, key_text
from eventlib.model.service import Service
from eventlib.replay.compare import Compare
from eventlib.replay.context import ReplayContext
from eventlib.replay.partition_buffer import Buffered
from eventlib.replay.push_scanner import EMITTED, PushScanner
from eventlib.replay.report import ComparedEvent, Difference, Input
from eventlib.replay.spilling_cache import IN_MEMORY, Spill, SpillingCache, StateCoder
from eventlib.replay.unclaimed import UnclaimedEvents
from eventlib.runtime.keyed_state import KeyedState, entry_of
from eventlib.runtime.records import POSITION_KEY, JournalEntry, Positions, changelog_key
from eventlib.values import from_ms

_ON_THE_LOG = 1 << 62
"""No buffer begins so late: inputs are read from the log, as far as the journal has come."""
_PATIENCE_MS = 5_000
_KEPT_MS = 60_000
_MOST_UNREADABLE = 1_000


@dataclass
class Moment:
    """A task's acts in one millisecond, as far as it was read; `touched` is when the last of it came (monotonic seconds)."""

    at_ms: int
    entries: list[JournalEntry] = field(default_factory=list)
    states: dict[str, Record] = field(default_factory=dict)
    is_placed: bool = False
    touched: float = 0.0


def shares_outputs(service: Service, log: EventLog) -> bool:
    """Return whether which task has emitted an event does not follow from its subject: then each of them looks at it."""
    return any(each.key is None for each in service.deciders) or any(
        topic.name in log.external.topics for topic in service.inputs
    )


class ShadowTask:
    """One task that runs elsewhere, and what the current code makes of it.

    Guarantee: the log is only read. Memory holds the task's latest milliseconds and a share of its states; the others are in
    an unnamed temporary file.
    """

    def __init__(self, service: Service, partition: int, context: ReplayContext, spill: Spill, tasks: int) -> None:
        self.service = service
        self.partition = partition
        self._changelog = service.changelog.name
        self._deciders: Mapping[str, Decider[Any]] = {each.name: each for each in service.deciders}
        self._spill = spill
        most = max(1, IN_MEMORY // (tasks * len(service.deciders)))
        entries = {name: self._cache(decider, most) for name, decider in self._deciders.items()}
        self._scanner = PushScanner(context.log, service, partition, is_whole=False)
        for topic in service.inputs:
            self._scanner.start((topic.name, partition), _ON_THE_LOG)
        self._context = replace(context, window=self._scanner, entries=entries, patience_ms=_PATIENCE_MS)
        self._compare = Compare(service, partition, self._context)
        self._unclaimed = UnclaimedEvents(self._context, {(service.name, partition): self._compare})
        self._positions = Positions()
        self._has_begun = self._has_met = self._has_decided = False
        self._moments: dict[int, Moment] = {}
        self._journal_ms = self._changelog_ms = self._newest_ms = -1
        self._shares = shares_outputs(service, context.log)
        self._unreadable: dict[str, Difference] = {}

    def _cache(self, decider: Decider[Any], most: int) -> SpillingCache[KeyedState]:
        coder = StateCoder(decider, self._spill.codec)
        return SpillingCache(f"{self.partition}/{decider.name}", coder, self._spill, most)

    async def begin(self) -> dict[TopicPartition, int]:
        """Read the task's states and positions, and return from where its changelog and journal are to be followed."""
        port, changelog = self._context.log.port, (self._changelog, self.partition)
        end = await port.decided_end(*changelog)
        async for record in records_between(port, changelog, await port.start(*changelog), end):
            await self._learn(record)
        self._compare.code_differs = True
        for difference in self._unreadable.values():
            self._context.tally.add(difference)
        self._has_begun = not self._positions.at_ms
        journal = self.service.journal.name, self.partition
        return {changelog: end, journal: await port.offset_at(*journal, self._positions.at_ms)}

    @property
    def began_ms(self) -> int:
        """The time of the task's last transaction before it is followed."""
        return self._positions.at_ms

    # --- what was read

    async def take(self, record: Record, now: float) -> None:
        """Take the next record of the task's journal or changelog, or an output of it."""
        if record.topic == self.service.journal.name:
            await self._take_entry(record, now)
        elif record.topic != self._changelog:
            if self._has_begun or record.timestamp_ms > self.began_ms:
                await self._scanner.push([(Buffered(record), EMITTED)])
                self._newest_ms = max(self._newest_ms, record.timestamp_ms)
        elif record.timestamp_ms == self.began_ms and not self._has_decided:
            await self._learn(record)
        else:
            self._take_change(record, now)

    async def _take_entry(self, record: Record, now: float) -> None:
        decode = partial(self._context.log.codec.decode, JournalEntry, record.value or b"")
        entry = await self._context.log.codec.decode_now(decode)
        if not self._has_begun:
            is_last = entry.at_ms == self.began_ms
            self._has_met |= is_last
            if is_last or not self._has_met:
                return
            self._has_begun = True
        if any(step.kind != "mend" for step in entry.steps):
            self._journal_ms = entry.at_ms
            self._moment(entry.at_ms, now).entries.append(entry)

    def _take_change(self, record: Record, now: float) -> None:
        name = key_text(record)
        kind = changelog_key(name).kind
        if kind == POSITION_KEY:
            self._changelog_ms = record.timestamp_ms
            self._moment(record.timestamp_ms, now).is_placed = True
        elif kind == "state":
            self._moment(record.timestamp_ms, now).states[name] = record

    def _moment(self, at_ms: int, now: float) -> Moment:
        moment = self._moments.get(at_ms)
        if moment is None:
            moment = self._moments[at_ms] = Moment(at_ms)
        moment.touched = now
        return moment

    async def _learn(self, record: Record) -> None:
        """Take a changelog record of before: what the task knew when the shadow began."""
        name, codec = key_text(record), self._context.log.codec
        kind, decider, key, _ = changelog_key(name)
        if kind == POSITION_KEY:
            self._positions = await codec.decode_now(partial(codec.decode, Positions, record.value or b""))
        elif kind == "parked":
            parked = self._compare.player.parked
            (parked.discard if record.value is None else parked.add)((decider, key))
        elif kind == "state" and decider in self._deciders:
            self._unreadable.pop(name, None)
            try:
                self._context.entries[decider].put(key, await self._entry(record, decider))
            except ContractError as error:
                self._unreadable[name] = self._state_differs(record, None, None, f"it cannot be read: {error}")
                if len(self._unreadable) > _MOST_UNREADABLE:
                    raise

    async def _entry(self, record: Record, decider: str) -> KeyedState:
        codec = self._context.log.codec
        return await codec.decode_now(partial(entry_of, record, self._deciders[decider], codec))

    # --- what comes of it

    async def decide(self, quiet_since: float) -> None:
        """Decide again what is whole: nothing of it came since a time, or the task has been active later."""
        if self._shares and not self._moments:
            self._scanner.unknown((self._newest_ms - _KEPT_MS, 0))
        while self._moments:
            moment = next(iter(self._moments.values()))
            if not self._is_whole(moment, quiet_since):
                return
            del self._moments[moment.at_ms]
            await self._decide(moment)

    def _is_whole(self, moment: Moment, quiet_since: float) -> bool:
        is_past = not self._shares and moment.at_ms not in {self._journal_ms, self._changelog_ms}
        is_known = moment.is_placed and self._scanner.outputs_at(moment.at_ms) >= sum(e.said for e in moment.entries)
        return bool(moment.entries) and is_known and (is_past or moment.touched < quiet_since)

    def lacking(self, since: float) -> str:
        """Give up what is not whole and of which nothing came since a time, and return which transaction that is."""
        moment = next(iter(self._moments.values()), None)
        if moment is None or moment.touched >= since:
            return ""
        del self._moments[moment.at_ms]
        at = from_ms(moment.at_ms).isoformat()
        return f"{self.service.name}/{self.partition} has a transaction at {at} of which the log lacks a part"

    async def _decide(self, moment: Moment) -> None:
        if not self._has_decided:
            self._compare.player.resume(self._positions)
            self._has_decided = True
        for entry in moment.entries:
            await self._compare.replay(entry)
        self._context.tally.transactions += len(moment.entries)
        time = moment.at_ms, moment.at_ms
        if self._shares:
            self._scanner.unclaimed(self.service.name, time)
        await self._unclaimed.judge(time, [(self._compare, entry) for entry in moment.entries], ())
        for name, record in moment.states.items():
            await self._compare_state(*changelog_key(name)[1:3], record)

    async def _compare_state(self, decider: str, key: str, record: Record) -> None:
        if decider not in self._deciders:
            return
        entries = self._context.entries[decider]
        before = entries.get(key)
        try:
            recorded = await self._entry(record, decider)
        except ContractError as error:
            self._context.tally.add(self._state_differs(record, None, None, f"it cannot be read: {error}"))
            return
        if before.state != recorded.state and not self._is_equal(before.state, recorded.state):
            self._context.tally.add(self._state_differs(record, recorded.state, before.state))
        entries.put(key, recorded)

    def _is_equal(self, one: object, other: object) -> bool:
        """Compare serialized forms: NaN is not equal to itself."""
        encode = self._spill.codec.encode
        return one is not None and other is not None and encode(one) == encode(other)

    def _state_differs(self, record: Record, then: object, now: object, why: str = "") -> Difference:
        _, decider, key, _ = changelog_key(key_text(record))
        handler, kind = f"{self.service.emits_as}/{decider}.evolve", self._deciders[decider].state.__name__
        place = record.topic, record.partition, record.offset
        before, after = ([] if each is None else [self._as_event(each, key)] for each in (then, now))
        given = Input(kind, record.causation_id or "", *place)
        return Difference(handler, "state", key, key, record.timestamp_ms, given, before, after, why)

    def _as_event(self, state: object, key: str) -> ComparedEvent:
        return ComparedEvent(type(state).__name__, key, self._changelog, json_of(state))

    def was_away(self, at_ms: int) -> None:
        """See `Compare.was_away`."""
        self._compare.was_away(at_ms)

    def end(self) -> None:
        """Report deadlines that the current code would have passed by now, and the running one did not."""
        for decider in self.service.deciders:
            for key, entry in self._context.entries[decider.name].all() if decider.has_deadlines else ():
                self._compare.end(decider, key, entry)

    async def waits_since_ms(self) -> int | None:
        """Return the time of the task's oldest unhandled input of a type that it has handled here; None for none.

        None also while transactions that were read are not decided here.
        """
        if self._moments:
            return None
        inputs, plans, decisions = (
            self._compare.player.inputs,
            self._compare.player.plans,
            self._context.tally.decisions,
        )

        def counts(record: Record) -> bool:
            return any(plan.handler in decisions for plan in plans.get(record.type, ()))

        found = [await inputs.next_ms(topic.name, counts) for topic in self.service.inputs]
        return min((each for each in found if each is not None), default=None)
