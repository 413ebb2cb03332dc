"""Delivers events to one subscriber: those of a key in their order, retried with pauses, and parked when that did not help."""

import asyncio
import logging
import random
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple

from eventlib.errors import EventlibError, UndecodableRecord
from eventlib.eventlog import EventLog
from eventlib.ground.tasks import cancelled
from eventlib.log.base import Claim, TopicPartition
from eventlib.model.event import contract_of
from eventlib.model.record import Record, text_of
from eventlib.sinks.consuming import Consumption, Location, ParkedEvent, partitions_of
from eventlib.values import escaped, now_ms
from eventlib.webhooks.endpoint import Answer
from eventlib.webhooks.ledger import WEBHOOKS, ledger_records, read_ledger
from eventlib.webhooks.sending import Sender
from eventlib.webhooks.subscribers import Subscriber

_log = logging.getLogger(__name__)

MOST_PARKED = 10_000
"""How many deliveries of a subscriber are parked at most: no event is read beyond that until some are delivered."""

_AT_ONCE = 100
"""How many events are taken together: what a crash can send a second time."""
_FULL_S = 0.2
_RETRIES_S = 1.0
_GROWTH = 4.0
Lane = deque[ParkedEvent]
"""The deliveries of one key, in their order; of one partition where they are sent in batches."""


class Timing(NamedTuple):
    """The clock that pauses end by, and what spreads them, so that retries of many deliveries do not come at once."""

    now_ms: Callable[[], int] = now_ms
    spread: Callable[[float, float], float] = random.uniform


class Delivering(Consumption):
    """The work for one subscriber, under one claim.

    Guarantee: each event is delivered at least once, with one `webhook-id` however often; the first deliveries of a key's
    events are in their order. What was sent within the last batch before a crash is sent again.
    """

    at_once = _AT_ONCE

    def __init__(
        self, log: EventLog, subscriber: Subscriber, claim: Claim, sender: Sender, timing: Timing | None = None
    ) -> None:
        topics = subscriber.topics(log.choreography)
        super().__init__(log, subscriber.work, topics, from_now=subscriber.begin == "now")
        self._subscriber = subscriber
        self._types = {contract_of(each).type for each in subscriber.event_types(log.choreography)}
        self._claim = claim
        self._sender = sender
        self._timing = timing or Timing()
        self._slots = asyncio.Semaphore(subscriber.concurrency)
        self._lanes = dict[object, Lane]()
        self._fresh = dict[Location, tuple[ParkedEvent, Record]]()
        self._on_log = set[Location]()
        self._changed = dict[Location, ParkedEvent | None]()
        self.disabled: str | None = None

    async def begin(self, partitions: object = None) -> None:
        """See `Consumption.begin`; one process works for a subscriber, on all partitions."""
        del partitions
        await super().begin(range(partitions_of(self._topics)))

    async def take_over(self, begins: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """See `Consumption.take_over`."""
        await self._log.port.create_topics([WEBHOOKS])
        ledger = await read_ledger(self._log, self._subscriber.name)
        self.disabled = ledger.disabled
        for delivery in ledger.parked.values():
            self._lane_of(delivery).append(delivery)
        self._on_log = set(ledger.parked)
        self.positions = {each: ledger.positions.get(each, offset) for each, offset in begins.items()}
        await self._commit(self.positions)
        return self.positions

    async def apply(self, records: Sequence[Record], offsets: Mapping[TopicPartition, int]) -> None:
        """See `Consumption.apply`."""
        new = list[Lane]()
        for record in records:
            if (delivery := await self._delivery_of(record)) is not None:
                self._fresh[delivery.location] = delivery, record
                lane = self._lane_of(delivery)
                if not lane:
                    new.append(lane)
                lane.append(delivery)
        await self._deliver(new, offsets)

    async def retry(self) -> None:
        """See `Consumption.retry`: those whose pause is over, for a second at most, and while some of them are taken."""
        clock = asyncio.get_running_loop().time
        until = clock() + _RETRIES_S
        while due := self._due():
            before = self.applied
            await self._deliver(due[: self._subscriber.concurrency], {})
            if self.applied == before or clock() > until:
                return

    def _due(self) -> list[Lane]:
        now = self._timing.now_ms()
        due = [lane for lane in self._lanes.values() if lane and lane[0].due_ms is not None and lane[0].due_ms <= now]
        return sorted(due, key=lambda lane: lane[0].due_ms or 0)

    async def step(self, timeout_s: float = 1.0) -> int:
        """See `Consumption.step`; nothing is read while the subscriber is disabled, or has too much parked."""
        if self.disabled is not None:
            await asyncio.sleep(timeout_s)
            return 0
        if len(self._on_log) >= MOST_PARKED:
            await asyncio.sleep(_FULL_S)
            await self.retry()
            return 0
        return await super().step(timeout_s)

    @property
    def has_parked(self) -> bool:
        """See `Consumption.has_parked`."""
        return bool(self._on_log)

    def remedy(self, topic_partition: TopicPartition, start: int) -> str:
        """See `Consumption.remedy`."""
        del topic_partition, start
        return f"give `eventlib webhook replay {self._subscriber.name} --from earliest`"

    async def end(self) -> None:
        """See `Consumption.end`."""
        await super().end()
        await self._sender.close()

    def _lane_of(self, delivery: ParkedEvent) -> Lane:
        if self._subscriber.mode == "batch":
            place: object = (delivery.topic, delivery.partition)
        else:
            place = delivery.location if delivery.key is None else (delivery.topic, delivery.key)
        return self._lanes.setdefault(place, deque())

    async def _delivery_of(self, record: Record) -> ParkedEvent | None:
        """Return what a record is to the subscriber; None when it is nothing."""
        kind = self._log.external.type_of(record)
        if kind not in self._types:
            return None
        key = None if record.key is None else escaped(text_of(record.key))
        delivery = ParkedEvent(*record.location, kind, key)
        if self._subscriber.where:
            try:
                event = await self._log.decode_now(record)
            except UndecodableRecord:
                return delivery  # the attempt will say so
            if event is None or not self._subscriber.wants(event):
                return None
        return delivery

    async def _deliver(self, lanes: Sequence[Lane], offsets: Mapping[TopicPartition, int]) -> None:
        """Deliver what is in lanes, as far as they come, and write what became of it, with the positions."""
        running = [asyncio.ensure_future(self._run(lane)) for lane in lanes]
        try:
            await asyncio.gather(*running)
        except asyncio.CancelledError:
            await cancelled(*running)
            with suppress(EventlibError):  # so that what was delivered is not delivered again
                await self._commit(offsets)
            raise
        finally:
            await cancelled(*running)
        await self._commit(offsets)

    async def _run(self, lane: Lane) -> None:
        """Deliver from a lane's head until one fails, the lane is empty, or others have waited long enough."""
        left = _AT_ONCE
        while lane and left > 0:
            async with self._slots:
                if self.disabled is not None:
                    return
                answer, sent = await self._sender.send(lane, self._fresh, left)
            if answer.error is not None:
                self._failed(lane[0], answer)
                return
            for _ in range(sent):
                self._done(lane.popleft())
            left -= sent

    def _done(self, delivery: ParkedEvent) -> None:
        self.applied += 1
        self._fresh.pop(delivery.location, None)
        if delivery.location in self._on_log:
            self._changed[delivery.location] = None
        else:
            self._changed.pop(delivery.location, None)

    def _failed(self, delivery: ParkedEvent, answer: Answer) -> None:
        subscriber = self._subscriber
        delivery.attempts += 1
        delivery.error = answer.error
        self._changed[delivery.location] = delivery
        if answer.is_gone:
            self.disabled = f"its endpoint answered {answer.error}"
            _log.error("subscriber %s is disabled: %s", subscriber.name, self.disabled)
        elif delivery.attempts >= subscriber.attempts or answer.is_final:
            delivery.due_ms = None
            _log.error("subscriber %s: %s is parked: %s", subscriber.name, delivery.id, answer.error)
        else:
            pause_s = min(subscriber.retry_s * _GROWTH ** (delivery.attempts - 1), subscriber.longest_retry_s)
            pause_s *= self._timing.spread(0.75, 1.0)
            delivery.due_ms = self._timing.now_ms() + int(max(pause_s, answer.after_s) * 1000)

    async def _commit(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Write what has changed, with the positions. Raises: OwnershipLost, LogUnavailable."""
        parked = {location: delivery for location, (delivery, _) in self._fresh.items()}
        parked |= {location: delivery for location, delivery in self._changed.items() if delivery is not None}
        done = [location for location, delivery in self._changed.items() if delivery is None]
        if offsets or parked or done:
            moved = {**self.positions, **offsets}
            records = ledger_records(self._subscriber.name, moved, self.disabled, parked.values(), done)
            await self._log.port.append(records, self._claim)
        self._on_log = (self._on_log | parked.keys()) - set(done)
        self._changed.clear()
        self._fresh.clear()
        for place in [place for place, lane in self._lanes.items() if not lane]:
            del self._lanes[place]
