"""An outbox in the simulator: the real relay, on a table in memory whose transactions commit late, and whose server is replaced."""

from collections.abc import Sequence
from typing import cast

from eventlib import Choreography, Event, EventLog
from eventlib.model.event import contract_of
from eventlib.outbox.database import OutboxTable
from eventlib.outbox.relay import Relay
from eventlib.outbox.rows import OutboxRow, rows_of
from eventlib.simulation import SimulatedConsumer
from eventlib.simulation.consumer_process import ConsumerProcess
from examples.payouts import PayoutScenario, desk, service

LOST, ORDER, TWICE = "a row is not on the log", "a key's rows are not in their order", "a row is on the log twice"
_KEYS, _ROWS = 3, 12
_AT_ONCE = 4


class Noted(Event, topic="notes", key="about", request=True):
    about: str
    number: int


NOTES = Choreography("notes", [service], facts=[*desk.facts, Noted])


class SimulatedOutbox(SimulatedConsumer):
    """An outbox that transactions of an application put rows into; it looks at each event of them that comes to the log."""

    def __init__(self) -> None:
        super().__init__("outbox", {contract_of(Noted).type})
        notes = [Noted(about=str(number % _KEYS), number=number) for number in range(_ROWS)]
        self.open = [OutboxRow(note.number, **_columns(note)) for note in notes]
        self.committed = dict[int, OutboxRow]()
        self.settled = list[OutboxRow]()
        self.seen = list[Noted]()
        self.broken = list[str]()

    @property
    def has_more(self) -> bool:
        """See `SimulatedConsumer.has_more`: rows that wait."""
        return bool(self.open or self.committed)

    def wants(self, event: Event) -> bool:
        """Take note of an event on the log; it asks for none."""
        note = cast("Noted", event)
        if note in self.seen:
            self.broken.append(TWICE)
        if any(each.about == note.about and each.number > note.number for each in self.seen):
            self.broken.append(ORDER)
        self.seen.append(note)
        return False

    def found(self) -> str | None:
        """Return what was broken first, or that a row is lost, at the end."""
        return next(iter(self.broken), LOST if len({each.number for each in self.seen}) < _ROWS else None)

    async def run(self, log: EventLog, process: ConsumerProcess) -> None:
        """See `SimulatedConsumer.run`."""
        await Relay(log, Table(self, process)).run(process.startup)

    async def operate(self, log: EventLog, process: ConsumerProcess) -> None:
        """See `SimulatedConsumer.operate`; nothing is held here."""


class Table(OutboxTable):
    def __init__(self, of: SimulatedOutbox, process: ConsumerProcess) -> None:
        self._of = of
        self._process = process

    async def take(self, limit: int) -> list[OutboxRow]:
        """See `OutboxTable.take`; in the order of ids, which transactions of different keys do not commit in."""
        await self._process.reached("before a query")
        outbox = self._of
        wanted = self._process.choose("how many transactions commit", range(3)) if self._process.faults else _ROWS
        for _ in range(min(wanted, len(outbox.open))):
            firsts = list({row.key: row for row in reversed(outbox.open)}.values())
            row = self._process.choose("which transaction commits", firsts)
            outbox.open.remove(row)
            outbox.committed[row.id] = row
        if self._process.choose("whether a replica without the last deletions takes over", [False] * 7 + [True]):
            outbox.committed |= {row.id: row for row in outbox.settled[-_AT_ONCE:]}
        rows = sorted(outbox.committed.values(), key=lambda row: row.id)[: min(limit, _AT_ONCE)]
        await self._process.reached("after a query")
        return rows

    async def settle(self, ids: Sequence[int]) -> None:
        """See `OutboxTable.settle`."""
        await self._process.reached("before a commit")
        self._of.settled += [self._of.committed.pop(each) for each in ids if each in self._of.committed]
        await self._process.reached("after a commit")


class OutboxScenario(PayoutScenario):
    """Payouts, and beside them an application whose outbox is relayed to the same log."""

    def __init__(self) -> None:
        self.outbox = SimulatedOutbox()

    def consumers(self) -> Sequence[SimulatedConsumer]:
        """See `Scenario`."""
        return [self.outbox]


def _columns(note: Noted) -> dict[str, str]:
    (row,) = rows_of(NOTES, [note])
    return {**row, "idempotency_key": f"note {note.number}"}
