"""Follows the orders of a file on the log until each has ended."""

import asyncio

from eventlib import EventLog
from eventlib.errors import UndecodableRecord
from eventlib.spi import Reader, Record, TopicPartition
from eventlib.values import now_ms
from services.importing.known import Known, KnownOrders
from services.importing.onlog import positions, text_key
from services.importing.outcomes import COMPENSATIONS, STEPS, Outcomes
from services.order.events import OrderCancelled, OrderCompleted

_TOPICS = ("order.requests", "orders", "stock", "payments", "dispatches")
_STEP = {name: number for number, name in enumerate(STEPS)}
_COMPLETED, _CANCELLED = OrderCompleted.__name__, OrderCancelled.__name__
_BATCH = 1_000
_LOOK_S = 0.5


class OpenOrder:
    """An order that has not ended, or whose last steps were not read yet: when each step was recorded (ms, 0: not yet)."""

    __slots__ = ("correlation_id", "times_ms")

    def __init__(self) -> None:
        self.correlation_id = ""
        self.times_ms = [0] * len(STEPS)


class Watch:
    """Reads the events of a file's orders, and counts their outcomes.

    Memory grows with the open orders only. `changed` is set whenever something was read.
    """

    def __init__(self, log: EventLog, known: KnownOrders, outcomes: Outcomes) -> None:
        self.outcomes = outcomes
        self.open_orders: dict[str, OpenOrder] = {}
        self.changed = asyncio.Event()
        self._log = log
        self._known = known
        self._started_ms = now_ms()
        self._reader: Reader | None = None
        self._read_to: dict[TopicPartition, int] = {}

    async def start(self, since_ms: int | None) -> None:
        """Start at the time of the file's first order on the log (ms); None when there is none yet."""
        self._read_to = await positions(self._log, _TOPICS, since_ms)
        self._reader = self._log.port.reader(self._read_to)

    async def run(self) -> None:
        """Read until cancelled."""
        assert self._reader is not None, "start the watch first"  # noqa: S101  a misuse, not a state
        try:
            while True:
                for record in await self._reader.poll(_BATCH, _LOOK_S):
                    await self._take(record)
                for partition in self._read_to:
                    self._read_to[partition] = self._reader.position(partition)
                self.changed.set()
        finally:
            await self._reader.close()

    async def catch_up(self) -> None:
        """Wait until everything on the log so far was read."""
        assert self._reader is not None, "start the watch first"  # noqa: S101  as above
        ends = await self._reader.ends()
        while any(self._read_to[partition] < end for partition, end in ends.items()):
            await self.wait(_LOOK_S)

    async def wait(self, timeout_s: float) -> bool:
        """Wait until something was read; False after a timeout."""
        self.changed.clear()
        try:
            async with asyncio.timeout(timeout_s):
                await self.changed.wait()
        except TimeoutError:
            return False
        return True

    async def _take(self, record: Record) -> None:
        kind = record.type or ""
        step = _STEP.get(kind)
        if step is None and kind != _CANCELLED and kind not in COMPENSATIONS:
            return
        order_id = text_key(record)
        known = Known(0) if order_id is None else self._known.known(order_id)
        if order_id is None or not known & Known.PLACED:
            return
        if kind in COMPENSATIONS:
            self.outcomes.compensations[kind] += 1
            return
        if kind in {_COMPLETED, _CANCELLED} and not known & Known.ENDED:
            await self._end(order_id, record)
        if step is not None:
            self._step(order_id, step, record, is_over=bool(known & Known.ENDED))

    def _step(self, order_id: str, step: int, record: Record, *, is_over: bool) -> None:
        order = self.open_orders.get(order_id)
        if order is None:
            if is_over:
                return
            order = self.open_orders[order_id] = OpenOrder()
        if step == 0:
            order.correlation_id = record.correlation_id or record.event_id
        order.times_ms[step] = order.times_ms[step] or record.timestamp_ms
        if all(order.times_ms):
            self.outcomes.latency.completed(order.times_ms)
            del self.open_orders[order_id]

    async def _end(self, order_id: str, record: Record) -> None:
        try:
            event = await self._log.decode_now(record)
        except UndecodableRecord:
            return
        outcomes = self.outcomes
        match event:
            case OrderCompleted(amount_cents=cents, currency=currency):
                outcomes.completed += 1
                outcomes.money_in(currency).completed_cents += cents
                outcomes.units += self._known.units(order_id)
                outcomes.examples.setdefault("completed", order_id)
            case OrderCancelled(refunded_cents=cents, currency=currency, reason=reason):
                outcomes.cancelled[reason] += 1
                outcomes.money_in(currency).refunded_cents += cents
                outcomes.examples.setdefault(reason, order_id)
                self._forget_cancelled(order_id, record)
            case _:
                return
        self._known.learn(order_id, Known.ENDED)
        outcomes.ended += 1
        outcomes.ended_since += record.timestamp_ms >= self._started_ms

    def _forget_cancelled(self, order_id: str, record: Record) -> None:
        order = self.open_orders.pop(order_id, None)
        if order is not None and order.times_ms[0]:
            self.outcomes.latency.to_cancellation.add(record.timestamp_ms - order.times_ms[0])
