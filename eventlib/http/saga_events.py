"""A saga's events over HTTP: as one answer, and as they happen, over server-sent events."""

import asyncio
import re
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from datetime import datetime
from time import monotonic
from typing import Any, Literal

from pydantic import BaseModel
from sse_starlette import EventSourceResponse, ServerSentEvent
from starlette.types import Scope

from eventlib.errors import EventlibError, RetryableError
from eventlib.http.config import ApiConfig
from eventlib.http.open_streams import CountedStream, OpenStreams
from eventlib.http.problems import Refusal, refused_field
from eventlib.json_form import json_of
from eventlib.log.base import TopicPartition
from eventlib.model.event import Event
from eventlib.model.personal import masked
from eventlib.model.record import Record, key_text
from eventlib.model.saga import SagaEvent, saga_of
from eventlib.queries.causal_order import in_order
from eventlib.queries.saga_index import SagaIndex
from eventlib.values import from_ms

_PART = re.compile(r"([A-Za-z0-9._]{1,249})/([0-9]{1,6})/([0-9]{1,15})")
_SETTLE_S = 1.0
_JUDGED_AGAIN_S = 300.0


class TimelineEvent(BaseModel):
    """One event of a saga.

    `cause` is the id of the event that led to it, null for what came from outside. `role` says whether it is a step
    forward, a failure, or makes up for one. `data` are its fields; null with `error` when it cannot be read.
    """

    id: str
    type: str
    at: datetime
    after_ms: int
    source: str
    cause: str | None
    role: Literal["step", "failure", "compensation"]
    ends: bool
    topic: str
    partition: int
    offset: int
    data: dict[str, Any] | None
    error: str | None = None


@dataclass(frozen=True, slots=True)
class Shown:
    """What a caller sees of events: no field of `without`, and personal fields as text or masked."""

    without: frozenset[str] = frozenset()
    personal: bool = True

    def of(self, event: Event) -> dict[str, Any]:
        """Return the fields of an event."""
        seen = event if self.personal else masked(event)
        return {name: value for name, value in json_of(seen).items() if name not in self.without}


EVERYTHING = Shown()


class SagaEvents:
    """The events of an index's sagas, which begin with `request`; `has_ended` returns whether the saga of a key is over.

    Guarantee of a stream: each event of the saga is sent once, in each partition's order, also when the client comes
    back with the last id that it has seen, to this instance or another one: the id has how far each partition was sent. A
    stream ends after five minutes at most, so that its caller is judged again when it comes back.
    """

    def __init__(
        self, index: SagaIndex[Any], request: type[Event], has_ended: Callable[[str], bool], config: ApiConfig
    ) -> None:
        self._index = index
        self._request = request
        self.has_ended = has_ended
        self._config = config
        self._streams = OpenStreams(config.streams_per_caller)

    @property
    def open(self) -> int:
        """How many streams are open."""
        return self._streams.count

    async def first(self, key: str) -> Record | None:
        """Return a saga's request; None when the log has none. Raises: ProjectionBehind when that is not known."""
        return await self._index.first_current(key, self._request, self._config.decision_s)

    async def timeline(self, key: str, shown: Shown = EVERYTHING) -> tuple[bool, list[TimelineEvent]]:
        """Return whether a saga has ended, and its events, causes before effects, as far as the caller may see them.

        Raises: Refusal, ProjectionBehind.
        """
        await self.first(key)
        once = {record.event_id: record for _, record in reversed(self._index.events(key))}
        if not once:
            raise self.unknown(key)
        log = self._index.log
        saga = saga_of(key, await log.decode_many(once.values()), log.choreography)
        return bool(saga.ended), [_timeline_event(event, shown) for event in saga.events]

    async def stream(
        self, key: str, last_id: str | None, scope: Scope | None = None, shown: Shown = EVERYTHING
    ) -> EventSourceResponse:
        """Return the stream, from the beginning or from what was seen last, as far as the caller may see them.

        `scope` is its request's, which has the caller. Raises: Refusal, also for a caller who has as many streams open as is
        allowed; ProjectionBehind.
        """
        if await self.first(key) is None and self._index.get(key) is None:
            raise self.unknown(key)
        sent = _sent_until(last_id)
        self._streams.refuse_over_limit(scope or {})
        found = CountedStream(self._events(key, sent, shown), ping=self._config.heartbeat_s)
        found.streams = self._streams
        return found

    async def refuse_unknown(self, key: str) -> None:
        """Refuse a key that no request has, or whose request the caller may not know of, after the same work for both.

        Raises: Refusal; ProjectionBehind.
        """
        await self._index.knows(key, self._request, self._config.decision_s)
        raise self.unknown(key)

    def unknown(self, key: str) -> Refusal:
        """Return the refusal of a key that no request has."""
        name = self._index.decider.name
        return Refusal(404, f"unknown-{name}", f"there is no {name} {key}")

    async def _events(self, key: str, sent: dict[TopicPartition, int], shown: Shown) -> AsyncIterator[ServerSentEvent]:
        try:
            number, ended, until = 0, False, monotonic() + _JUDGED_AGAIN_S
            request = self._index.first(key, self._request)
            since_ms = 0 if request is None else request.timestamp_ms
            while not ended and monotonic() < until:
                has_ended = self.has_ended(key)
                # What was emitted together with the end may stand on topics that were read before it.
                ended = has_ended and await self._has_settled()
                new = self._index.events(key, number)
                number = new[-1][0] if new else number
                for record in in_order([record for _, record in new]):  # topics are read one after the other
                    place = record.topic, record.partition
                    if record.offset > sent.get(place, -1):
                        sent[place] = record.offset
                        yield _message(await self._event(record, since_ms, shown), sent)
                if not has_ended:
                    await self._something_new(key, number, until)
        except EventlibError:
            return  # the index cannot be read: the client comes back with its last id, and gets the reason

    async def _event(self, record: Record, since_ms: int, shown: Shown) -> TimelineEvent:
        """Return one event, without what only the whole saga shows: whether it makes up for a failure."""
        log = self._index.log
        saga = saga_of(key_text(record), await log.decode_many([record]), log.choreography)
        event = _timeline_event(saga.events[0], shown)
        return event.model_copy(update={"cause": record.causation_id, "after_ms": record.timestamp_ms - since_ms})

    async def _has_settled(self) -> bool:
        try:
            return await self._index.caught_up(_SETTLE_S)
        except RetryableError:
            await asyncio.sleep(_SETTLE_S)
            return False

    async def _something_new(self, key: str, number: int, until: float) -> None:
        def is_there() -> bool:
            return self.has_ended(key) or self._index.has_events(key, number)

        while (left_s := until - monotonic()) > 0:
            if await self._index.until(key, is_there, min(left_s, self._config.heartbeat_s)):
                return


def _timeline_event(event: SagaEvent, shown: Shown) -> TimelineEvent:
    record = event.record
    facts = None if event.event is None else shown.of(event.event)
    return TimelineEvent.model_construct(
        id=record.event_id,
        type=event.type,
        at=from_ms(record.timestamp_ms),
        after_ms=event.after_ms,
        source=record.source or "outside",
        cause=None if event.cause is None else event.cause.event_id,
        role=event.role,
        ends=event.ends,
        topic=record.topic,
        partition=record.partition,
        offset=record.offset,
        data=facts,
        error=event.error,
    )


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
