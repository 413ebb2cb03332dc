"""One record of the log as it is: its attributes, what is in it, and what deciders did with it."""

from collections.abc import Sequence

from fastapi import APIRouter, Request
from fastapi.responses import Response

from eventlib.console.browser import is_htmx
from eventlib.console.moments import SeenStep, steps_about
from eventlib.console.reading import SagaReader, as_seen
from eventlib.console.rendering import Pages
from eventlib.errors import EventlibError
from eventlib.http.gate import Caller
from eventlib.http.problems import Refusal
from eventlib.identity.principal import READERS, Principal, allow
from eventlib.model.event import contract_of
from eventlib.model.record import Record, key_text
from eventlib.queries.decoding import RecordReader


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
