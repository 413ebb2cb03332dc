"""Brings what stands in an outbox to the log, each event once, those of a key in their order."""

import asyncio
import json
from collections.abc import Iterable, Sequence
from itertools import accumulate, chain
from time import time_ns

from eventlib.errors import ContractError
from eventlib.eventlog import CALLER, EventLog
from eventlib.log.base import Claim
from eventlib.log.rules import refuse_large
from eventlib.model.event import Event, contract_of
from eventlib.model.kept_error import kept_reason
from eventlib.model.record import Record
from eventlib.model.topic import Topic
from eventlib.operations.sending import prepare_sending
from eventlib.outbox.database import OutboxTable
from eventlib.outbox.rows import OutboxRow, event_in
from eventlib.personal.opening import has_personal
from eventlib.publication import Publication
from eventlib.sinks.consuming import ConsumptionRunner
from eventlib.values import now_ms

OUTBOXES = Topic("_outbox", partitions=1, compacted=True)
"""What relays have brought here lately, in the same transactions."""

_KEPT = 64
"""How many of its last transactions a relay remembers on the log."""

_AT_ONCE = 1_000

Identity = tuple[int, str]
"""A row's id and idempotency key: a table that is made anew begins its ids again."""


class Relay(ConsumptionRunner):
    """One process of a relay; of several with one name, one works, and another takes over when it dies.

    Guarantee: each committed row becomes one event on the log. What was on the log before a crash is known from the log
    itself, so that a row that is still in the table, or is there again since a replica took over, is not brought a second
    time: of the last 64 transactions, 1,000 rows each at most. A row that cannot be an event stays in the table with the
    reason, and what was put later under its key waits for it; other keys go on.
    """

    def __init__(self, log: EventLog, table: OutboxTable, name: str = "outbox", every_s: float = 0.02) -> None:
        self.name = name
        super().__init__(
            log, f"outbox {name}", f"_outbox.{name}", 1, lambda held: _Relaying(log, table, name, held[0], every_s)
        )


class _Relaying:
    """The work of a relay under one claim; after an error another one begins, since what failed may be on the log."""

    def __init__(self, log: EventLog, table: OutboxTable, name: str, claim: Claim, every_s: float) -> None:
        self._log = log
        self._table = table
        self._name = name
        self._claim = claim
        self._every_s = every_s
        self._prepared = set[type[Event]]()
        self._known = _Past()
        self.applied = 0

    async def begin(self, partitions: object) -> None:
        """See `PartitionWork.begin`."""
        del partitions
        await self._log.port.create_topics([OUTBOXES])
        self._known = await self._past()

    async def step(self) -> None:
        """See `PartitionWork.step`."""
        if not await self._batch(self._known):
            await asyncio.sleep(self._every_s)

    def wake(self) -> None:
        """See `PartitionWork.wake`; a step waits for a moment only."""

    async def end(self) -> None:
        """See `PartitionWork.end`."""

    async def _batch(self, past: "_Past") -> int:
        rows = await self._table.take(_AT_ONCE)
        new = await self._records([row for row in rows if not past.has(row)])
        if new:
            began_ns = time_ns()
            entry = past.entry(self._name, [row for row, _ in new])
            offsets = await self._log.port.append(
                [*chain.from_iterable(records for _, records in new), entry], self._claim
            )
            past.add([row for row, _ in new])
            self.applied += len(new)
            self._tell([records for _, records in new], offsets, began_ns)
        await self._table.settle([row.id for row in rows if past.has(row)])
        return len(rows)

    def _tell(self, published: Sequence[Sequence[Record]], offsets: Sequence[int], began_ns: int) -> None:
        if self._log.observer is not None:
            firsts = accumulate((len(records) for records in published), initial=0)
            placed = [records[0].placed(offsets[first]) for records, first in zip(published, firsts, strict=False)]
            self._log.observer.published(placed, None, began_ns)

    async def _records(self, rows: Sequence[OutboxRow]) -> list[tuple[OutboxRow, list[Record]]]:
        """Return the records of those rows that can be events; the others are held, with what follows under their keys."""
        events, stopped = list[tuple[OutboxRow, Event]](), set[tuple[str, str | None]]()
        for row in rows:
            if (row.topic, row.key) in stopped:
                continue
            try:
                events.append((row, event_in(row, self._log.choreography)))
            except ContractError as error:
                await self._hold(row, error, stopped)
        await self._prepare(events)
        made, now = list[tuple[OutboxRow, list[Record]]](), now_ms()
        for row, event in events:
            if (row.topic, row.key) in stopped:
                continue
            try:
                made.append((row, self._of(row, event, now)))
            except ContractError as error:
                await self._hold(row, error, stopped)
        return made

    async def _hold(self, row: OutboxRow, error: ContractError, stopped: set[tuple[str, str | None]]) -> None:
        is_personal = has_personal(self._log.choreography)
        await self._table.hold(row, kept_reason(error, personal=True) if is_personal else str(error))
        if row.key is not None:
            stopped.add((row.topic, row.key))

    async def _prepare(self, events: Iterable[tuple[OutboxRow, Event]]) -> None:
        for event_type in {type(event) for _, event in events} - self._prepared:
            await prepare_sending(self._log, event_type)
            self._prepared.add(event_type)
        self._log.codec.prepare_subjects(event for _, event in events)

    def _of(self, row: OutboxRow, event: Event, now: int) -> list[Record]:
        token = CALLER.set(row.traceparent)
        try:
            records = self._log.records_of(Publication(event, row.idempotency_key, None, json.loads(row.headers)), now)
        finally:
            CALLER.reset(token)
        refuse_large(records[0], contract_of(type(event)).topic)
        return records

    async def _past(self) -> "_Past":
        """Return what was relayed before, as of now: no older claim can append any more."""
        port, place = self._log.port, (OUTBOXES.name, 0)
        await port.decided_end(*place)
        kept = dict[bytes, bytes]()
        await port.newest(place, await port.start(*place), kept, None)
        begin = f"{self._name}/".encode()
        past = _Past()
        for each in sorted((json.loads(value) for key, value in kept.items() if key.startswith(begin)), key=_number):
            past.remember(each["number"], each["rows"])
        return past


class _Past:
    """The rows of the last transactions, by the transaction's number."""

    def __init__(self) -> None:
        self._number = 0
        self._of = dict[int, list[Identity]]()
        self._rows = set[Identity]()

    def has(self, row: OutboxRow) -> bool:
        return (row.id, row.idempotency_key) in self._rows

    def entry(self, name: str, rows: Sequence[OutboxRow]) -> Record:
        """Return the record of the next transaction, in the place of the one that is forgotten for it."""
        number = self._number + 1
        value = {"number": number, "rows": [(row.id, row.idempotency_key) for row in rows]}
        key = f"{name}/{number % _KEPT}".encode()
        return Record(OUTBOXES.name, 0, -1, now_ms(), key, json.dumps(value).encode())

    def add(self, rows: Sequence[OutboxRow]) -> None:
        """Take note of a transaction that is on the log now."""
        self.remember(self._number + 1, [(row.id, row.idempotency_key) for row in rows])

    def remember(self, number: int, rows: Iterable[Sequence[int | str]]) -> None:
        self._number = number
        self._rows.difference_update(self._of.pop(number - _KEPT, ()))
        self._of[number] = [(int(row_id), str(key)) for row_id, key in rows]
        self._rows.update(self._of[number])


def _number(entry: dict[str, int]) -> int:
    return entry["number"]
