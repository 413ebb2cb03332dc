"""The pages of topics and of one record: by partition, offset, time and key, with the schemas of events."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response

from eventlib.console.browser import is_htmx
from eventlib.console.moments import SeenStep, steps_about
from eventlib.console.reading import SagaReader, as_seen
from eventlib.console.rendering import Pages
from eventlib.errors import ContractError, EventlibError
from eventlib.eventlog import EventLog
from eventlib.http.gate import Caller
from eventlib.http.problems import Refusal
from eventlib.identity.principal import READERS, Principal, allow
from eventlib.model.event import contract_of
from eventlib.model.record import Record, key_text
from eventlib.operations.sending import emitters_of, is_sendable
from eventlib.operations.topics import topic_rows
from eventlib.queries.decoding import RecordReader
from eventlib.values import time_of, to_ms

_LIMIT = 50
_SEARCHED = 20_000
_CHUNK = 1_000


@dataclass(frozen=True, slots=True)
class Place:
    """Where records are read: from an offset on, or the last ones (`offset` is None); of one key, if one is given."""

    topic: str
    partition: int
    offset: int | None = None
    key: str = ""


@dataclass(frozen=True, slots=True)
class RecordPage:
    """Some records with what is in them; the offsets of the pages before and after, where there are any.

    `searched_to` is where a search for a key has stopped, before the end, since it had read enough.
    """

    lines: Sequence[tuple[Record, Any, str]]
    start: int
    end: int
    before: int | None
    after: int | None
    searched_to: int | None = None


def topic_routes(pages: Pages, log: EventLog) -> APIRouter:
    """Return the routes of topics."""
    routes = APIRouter()
    decoding = RecordReader(log)

    @routes.get("/topics")
    @allow(*READERS)
    async def topics(request: Request) -> Response:
        return pages.render(request, "topics.html", topics=await topic_rows(log))

    @routes.get("/topics/{topic}")
    @allow(*READERS)
    async def show(  # noqa: PLR0913, PLR0917  one argument for each part of the address
        request: Request,
        topic: str,
        caller: Caller,
        partition: Annotated[int, Query(ge=0)] = 0,
        offset: Annotated[str, Query(max_length=20)] = "",
        time: Annotated[str, Query(max_length=40)] = "",
        key: Annotated[str, Query(max_length=500)] = "",
    ) -> Response:
        there = (await log.port.topics()).get(topic)
        if there is None:
            raise Refusal(404, "unknown-topic", f"there is no topic {topic} on this log")
        at = min(partition, there.partitions - 1)
        if key and not (offset or time):
            at = there.partition_of(key.encode())
        place = Place(topic, at, await _offset(log, (topic, at), offset, time), key)
        if key and place.offset is None:
            place = Place(topic, at, await log.port.start(topic, at), key)
        found = await _page(log, decoding, place, personal=caller.sees_personal)
        return pages.render(
            request,
            "topic.html",
            topic=there,
            place=place,
            page=found,
            asked={"offset": offset, "time": time, "key": key},
            contracts=_contracts(log, topic),
        )

    return routes


async def _offset(log: EventLog, place: tuple[str, int], offset: str, time: str) -> int | None:
    if time:
        return await log.port.offset_at(*place, to_ms(time_of(time)))
    if offset and not (offset.isascii() and offset.isdecimal()):
        raise ContractError(f"offset {offset!r} is no number")
    return int(offset) if offset else None


async def _page(log: EventLog, decoding: RecordReader, place: Place, *, personal: bool) -> RecordPage:
    start, end = await log.port.start(place.topic, place.partition), await log.port.end(place.topic, place.partition)
    first = max(start, min(end, end - _LIMIT if place.offset is None else place.offset))
    records, at, stopped = list[Record](), first, None
    while at < end and len(records) < _LIMIT:
        if place.key and at - first >= _SEARCHED:
            stopped = at
            break
        chunk = await log.port.read(place.topic, place.partition, at, _CHUNK if place.key else _LIMIT)
        if not chunk:
            break
        records += [each for each in chunk if not place.key or key_text(each) == place.key]
        at = chunk[-1].offset + 1
    shown = records[:_LIMIT]
    after = shown[-1].offset + 1 if len(records) > _LIMIT or (shown and len(records) == _LIMIT and at < end) else None
    readings = await decoding.read(shown)
    lines = [(each.record, as_seen(each.value, personal=personal), each.error or "") for each in readings]
    before = max(start, first - _LIMIT) if first > start and not place.key else None
    return RecordPage(lines, start, end, before, after, stopped)


def _contracts(log: EventLog, topic: str) -> list[dict[str, Any]]:
    """Return what the page shows of a topic's events: who emits and handles each, its schema, and whether it is sent from outside."""
    app = log.choreography
    return [
        {
            "contract": contract_of(event),
            "about": (event.__doc__ or "").strip(),
            "schema": event.model_json_schema(),
            "emitted_by": emitters_of(app, event),
            "handled_by": [decider.name for decider in app.deciders if event in decider.handlers],
            "is_sendable": is_sendable(app, event),
        }
        for event in app.events
        if contract_of(event).topic.name == topic
    ]


def record_routes(pages: Pages, reader: SagaReader) -> APIRouter:
    """Return the route of one record, as a page of its own or as a part of its saga's."""
    routes = APIRouter()
    decoding = RecordReader(reader.log)
    types = {contract_of(event).type for event in reader.log.choreography.events}

    @routes.get("/record/{topic}/{partition}/{offset}")
    @allow(*READERS)
    async def show(
        request: Request, topic: str, partition: int, offset: int, caller: Caller, saga: str = ""
    ) -> Response:
        record = await reader.record(topic, partition, offset)
        if record is None:
            raise Refusal(404, "unknown-record", f"there is no record at {topic}/{partition}/{offset}")
        (reading,) = await decoding.read([record])
        steps, doubt = await _steps(reader, saga, record, caller) if saga else ([], "")
        return pages.render(
            request,
            "record_part.html" if is_htmx(request.scope) else "record.html",
            record=record,
            value=as_seen(reading.value, personal=caller.sees_personal),
            error=reading.error or "",
            raw=_raw(record, personal=caller.sees_personal),
            steps=steps,
            doubt=doubt,
            saga_key=saga,
            key=key_text(record) if record.type in types else "",
        )

    return routes


def _raw(record: Record, *, personal: bool) -> str:
    """Return a record's bytes; of personal fields these are encrypted, unless a topic is written by others."""
    value = record.value or b""
    return value[:4_096].hex(" ", 2) if personal else ""


async def _steps(reader: SagaReader, key: str, record: Record, caller: Principal) -> tuple[Sequence[SeenStep], str]:
    saga = await reader.saga(key, personal=caller.sees_personal)
    if saga is None:
        return [], ""
    try:
        return steps_about(await reader.histories(saga), record, personal=caller.sees_personal), ""
    except EventlibError as error:
        return [], str(error)
