"""Follows the orders of a file on the log until each has ended, or waits for a person."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import pairwise

from eventlib import EventLog
from eventlib.errors import UndecodableRecord
from eventlib.operations import parkings, waiting_inputs
from eventlib.spi import Reader, Record, TopicPartition, warn_of_lost
from eventlib.values import now_ms
from services.importing.catalogue import text_key
from services.importing.intake import Intake, Known
from services.importing.report import COMPENSATIONS, STEPS, WaitingOrder
from services.order.events import OrderCancelled, OrderCompleted

_TOPICS = ("order.requests", "orders", "stock", "payments", "dispatches")
_STEP = {name: number for number, name in enumerate(STEPS)}
_ENDS = {OrderCompleted.__name__, OrderCancelled.__name__}
_BATCH = 1_000
_LOOK_S = 0.2


@dataclass(slots=True)
class _OpenOrder:
    """An order whose steps were not all read yet: when each was recorded (ms, 0: not yet)."""

    correlation_id: str = ""
    times_ms: list[int] = field(default_factory=lambda: [0] * len(STEPS))


class Watch:
    """Reads the events of a file's orders, and counts how they end. Memory grows with the open orders only."""

    def __init__(self, log: EventLog, intake: Intake, reader: Reader) -> None:
        self._log = log
        self._intake = intake
        self._report = intake.report
        self._reader = reader
        self._open = dict[str, _OpenOrder]()
        self._started_ms = now_ms()

    async def read(self) -> None:
        """Take in what comes next, if anything does within a moment."""
        for record in await self._reader.poll(_BATCH, _LOOK_S):
            await self._take(record)
        self._report.lost.update(warn_of_lost(self._reader, "the import"))

    async def catch_up(self) -> None:
        """Take in everything that is on the log now."""
        ends = await self._reader.ends()
        while any(self._reader.position(partition) < end for partition, end in ends.items()):
            await self.read()

    async def waiting(self) -> list[WaitingOrder]:
        """Return the open orders that wait for a person, because an input or effect of theirs is parked."""
        open_orders = {order.correlation_id: order_id for order_id, order in self._open.items()}
        found = dict[str, WaitingOrder]()
        for parking in await parkings(self._log):
            for waiting in await waiting_inputs(self._log, parking):
                order_id = open_orders.get(waiting.record.correlation_id or "")
                if order_id is not None:
                    waits = {name: getattr(parking, name) for name in ("service", "decider", "key", "reason")}
                    found.setdefault(order_id, WaitingOrder(order_id=order_id, **waits))
        return [*found.values()]

    async def _take(self, record: Record) -> None:
        kind = record.type or ""
        if kind not in _STEP and kind not in _ENDS and kind not in COMPENSATIONS:
            return
        order_id = text_key(record)
        kept = None if order_id is None else self._intake.kept(order_id)
        if order_id is None or kept is None or kept.known not in {Known.PLACED, Known.ENDED}:
            return
        if kind in COMPENSATIONS:
            self._report.compensations[kind] += 1
            return
        if kind in _ENDS and kept.known is Known.PLACED:
            await self._end(order_id, kept.units, record)
        if kind in _STEP:
            self._step(order_id, _STEP[kind], record, is_over=kept.known is Known.ENDED)

    def _step(self, order_id: str, step: int, record: Record, *, is_over: bool) -> None:
        if is_over and order_id not in self._open:
            return
        order = self._open.setdefault(order_id, _OpenOrder())
        if step == 0:
            order.correlation_id = record.correlation_id or record.event_id
        order.times_ms[step] = order.times_ms[step] or record.timestamp_ms
        if all(order.times_ms):
            del self._open[order_id]
            for latencies, (before, after) in zip(self._report.steps, pairwise(order.times_ms), strict=True):
                latencies.add(after - before)
            self._report.to_completion.add(order.times_ms[-1] - order.times_ms[0])

    async def _end(self, order_id: str, units: int, record: Record) -> None:
        try:
            event = await self._log.decode_now(record)
        except UndecodableRecord:
            return
        report = self._report
        match event:
            case OrderCompleted(amount_cents=cents, currency=currency):
                report.completed += 1
                report.money_in(currency).completed_cents += cents
                report.units_shipped += units
                report.examples.setdefault("completed", order_id)
            case OrderCancelled(refunded_cents=cents, currency=currency, reason=reason):
                report.cancelled[reason] += 1
                report.money_in(currency).refunded_cents += cents
                report.examples.setdefault(reason, order_id)
                order = self._open.pop(order_id, None)
                if order is not None and order.times_ms[0]:
                    report.to_cancellation.add(record.timestamp_ms - order.times_ms[0])
            case _:
                return
        self._intake.learn(order_id, Known.ENDED)
        report.ended += 1
        report.ended_since += record.timestamp_ms >= self._started_ms


@asynccontextmanager
async def watching(log: EventLog, intake: Intake, since_ms: int | None) -> AsyncIterator[Watch]:
    """Watch from the time of the file's first order on the log (ms), or from the end of the log without one."""
    topics = await log.port.topics()
    starts = dict[TopicPartition, int]()
    for place in [(topic, partition) for topic in _TOPICS for partition in range(topics[topic].partitions)]:
        starts[place] = await (log.port.end(*place) if since_ms is None else log.port.offset_at(*place, since_ms))
    reader = log.port.reader(starts)
    try:
        yield Watch(log, intake, reader)
    finally:
        await reader.close()
