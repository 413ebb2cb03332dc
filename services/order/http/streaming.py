"""An order's events as they happen, over server-sent events."""

import asyncio
import re
from collections.abc import AsyncIterator

from sse_starlette import EventSourceResponse, ServerSentEvent

from eventlib import RetryableError
from eventlib.queries import in_order
from eventlib.spi import TopicPartition
from services.order.events import OrderSubmitted
from services.order.http.config import ApiConfig
from services.order.http.models import TimelineEvent
from services.order.http.problems import Refusal, refused_field
from services.order.http.reading import Reading
from services.order.index import OrderIndex

_PART = re.compile(r"([A-Za-z0-9._]{1,249})/([0-9]{1,6})/([0-9]{1,15})")
_SETTLE_S = 1.0


class Streaming:
    """Streams an order's events.

    Guarantee: each event of the saga is sent once, in each partition's order, also when the client comes back with
    the last id that it has seen, to this instance or another one: the id says how far each partition was sent.
    """

    def __init__(self, index: OrderIndex, reading: Reading, config: ApiConfig) -> None:
        self._index = index
        self._reading = reading
        self._config = config
        self.open = 0

    async def stream(self, order_id: str, last_id: str | None) -> EventSourceResponse:
        """Return the stream, from the beginning or from what was seen last. Raises: Refusal; ProjectionBehind."""
        submitted = await self._index.first_current(order_id, OrderSubmitted, self._config.decision_s)
        if submitted is None and self._index.order(order_id) is None:
            raise Refusal(404, "unknown-order", f"there is no order {order_id}")
        sent = _sent_until(last_id)
        return EventSourceResponse(self._events(order_id, sent), ping=self._config.heartbeat_s)

    async def _events(self, order_id: str, sent: dict[TopicPartition, int]) -> AsyncIterator[ServerSentEvent]:
        self.open += 1
        try:
            number, ended = 0, False
            submitted = self._index.first(order_id, OrderSubmitted)
            since_ms = 0 if submitted is None else submitted.timestamp_ms
            while not ended:
                has_ended = self._index.has_ended(order_id)
                # What was said together with the end may stand on topics that were read before it.
                ended = has_ended and await self._has_settled()
                new = list(self._index.events(order_id, number))
                number = new[-1][0] if new else number
                for record in in_order([record for _, record in new]):  # topics are read one after the other
                    place = record.topic, record.partition
                    if record.offset > sent.get(place, -1):
                        sent[place] = record.offset
                        yield _message(await self._reading.event(record, since_ms), sent)
                if not has_ended:
                    await self._something_new(order_id, number)
        finally:
            self.open -= 1

    async def _has_settled(self) -> bool:
        try:
            return await self._index.caught_up(_SETTLE_S)
        except RetryableError:
            await asyncio.sleep(_SETTLE_S)
            return False

    async def _something_new(self, order_id: str, number: int) -> None:
        def is_there() -> bool:
            return self._index.has_ended(order_id) or self._index.has_events(order_id, number)

        while not await self._index.until(order_id, is_there, self._config.heartbeat_s):
            pass


def _message(event: TimelineEvent, sent: dict[TopicPartition, int]) -> ServerSentEvent:
    seen = "+".join(f"{topic}/{partition}/{offset}" for (topic, partition), offset in sorted(sent.items()))
    return ServerSentEvent(data=event.model_dump_json(), event=event.type, id=seen, sep="\n")


def _sent_until(last_id: str | None) -> dict[TopicPartition, int]:
    """Return how far each partition was sent. Raises: Refusal for an id that no stream has had."""
    sent = dict[TopicPartition, int]()
    for part in (last_id or "").split("+") if last_id else ():
        match = _PART.fullmatch(part)
        if match is None:
            raise refused_field("header", "Last-Event-ID", "is no id that this stream has had")
        sent[match[1], int(match[2])] = int(match[3])
    return sent
