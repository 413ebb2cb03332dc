"""Makes requests of events, and sends them to one subscriber."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice
from time import time_ns
from typing import NamedTuple, Protocol

from eventlib.errors import ContractError
from eventlib.eventlog import EventLog
from eventlib.model.identity import child_traceparent, derived_id
from eventlib.model.kept_error import kept_reason
from eventlib.model.record import Record
from eventlib.sinks.consuming import Location, ParkedEvent
from eventlib.values import escaped
from eventlib.webhooks.cloudevents import CloudEvent, Content, cloud_event, content_of
from eventlib.webhooks.endpoint import Answer
from eventlib.webhooks.subscribers import Subscriber

_BATCH_BYTES = 256_000
"""How many bytes the events of a batch have on the log at most, unless one alone has more."""

_SAFE_ID = re.compile(r"[\w-]{1,64}", re.ASCII)

Fresh = Mapping[Location, tuple[ParkedEvent, Record]]
"""The records that were just read; those of earlier deliveries are read again."""


class Attempt(NamedTuple):
    """One request to a subscriber: what it carried, and what became of it.

    `traceparent` is the span of the request, in the trace of its first event, which is `parent`; `began_ns` is since 1970.
    """

    subscriber: str
    events: Sequence[CloudEvent]
    answer: Answer
    parent: str | None
    traceparent: str | None
    began_ns: int


class Posts(Protocol):
    """Posts requests to one subscriber: its `Endpoint`, or what stands for it in the simulator."""

    async def post(self, webhook_id: str, content: Content, traceparent: str | None = None) -> Answer:
        """See `Endpoint.post`."""

    async def close(self) -> None:
        """See `Endpoint.close`."""


Observe = Callable[[Attempt], None]
"""Is called after each attempt."""


class Sender:
    """Sends events of a log to one subscriber; each is decoded for each attempt, since a person may be erased meanwhile."""

    def __init__(self, log: EventLog, subscriber: Subscriber, endpoint: Posts, observe: Observe) -> None:
        self._log = log
        self._subscriber = subscriber
        self._endpoint = endpoint
        self._observe = observe

    async def send(self, lane: Iterable[ParkedEvent], fresh: Fresh, most: int) -> tuple[Answer, int]:
        """Send the first delivery of a lane, or a batch of `most`; return how many were sent. Raises: LogUnavailable."""
        most = most if self._subscriber.mode == "batch" else 1
        began_ns = time_ns()
        try:
            events = await self._events(islice(lane, most), fresh)
            content = content_of(events, self._subscriber.mode)
        except (ContractError, ValueError) as error:
            if most > 1:  # which one of a batch it is, is found singly
                return await self.send(lane, fresh, 1)
            is_ours = isinstance(error, ContractError)
            why = str(error) if is_ours else kept_reason(error, personal=self._subscriber.personal)
            return Answer(escaped(why), is_final=True), 0
        webhook_id = _webhook_id(events)
        name, parent = self._subscriber.name, events[0].attributes.get("traceparent")
        span_id = derived_id("webhook", name, webhook_id, began_ns)
        traceparent = None if parent is None else child_traceparent(parent, span_id)
        answer = await self._endpoint.post(webhook_id, content, traceparent)
        self._observe(Attempt(name, events, answer, parent, traceparent, began_ns))
        return answer, len(events)

    async def _events(self, deliveries: Iterable[ParkedEvent], fresh: Fresh) -> list[CloudEvent]:
        events, size = list[CloudEvent](), 0
        for delivery in deliveries:
            _, record = fresh.get(delivery.location, (None, None))
            if record is None:
                found = await self._log.port.read(*delivery.location, 1)
                record = next((each for each in found if each.offset == delivery.offset), None)
            event = None if record is None else await self._log.decode_now(record)
            if record is None or event is None:
                raise ContractError(f"{delivery.id} is not on the log any more, or its type is not known any more")
            size += len(record.value or b"")
            if events and size > _BATCH_BYTES:
                break
            events.append(cloud_event(record, event, self._log.choreography.name, personal=self._subscriber.personal))
        return events

    async def close(self) -> None:
        """Close its connections."""
        await self._endpoint.close()


def _webhook_id(events: Sequence[CloudEvent]) -> str:
    """Return what a receiver knows a delivery by: the event's id, where a header can have it."""
    ids = [event.id for event in events]
    if len(ids) == 1 and _SAFE_ID.fullmatch(ids[0]):
        return ids[0]
    return derived_id("webhook", "", "\n".join(ids), 0)
