"""A sink and a live view are given what an event's bytes give back, by type and repr, for every type of field."""

from itertools import count
from typing import TYPE_CHECKING, Any, cast

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy.orm import Session

from eventlib import Choreography, Decider, Event, EventLog, Service, open_log
from eventlib.log.kafka.batches import headers_of
from eventlib.model.event import contract_of
from eventlib.model.record import Record
from eventlib.sinks import SqlSink
from tests.apps.fields import EVERY, event_of, shown, state_of, values_of
from tests.integration.reopening import everything
from tests.integration.sinking import sinking
from tests.waiting import until

if TYPE_CHECKING:
    from eventlib.live.events import Recorded

Noted = event_of("Noted", EVERY, request=True)
notes: Decider[Any] = Decider("note", state=state_of("NoteState", EVERY), key="key")
notes.follows(Noted)
APP = Choreography("noting", [Service("notes", deciders=[notes])])
NUMBERS = count()


async def sunk(log: EventLog, url: str, events: int) -> dict[str, str]:
    """Return what a sink was given, by key."""
    sink, given_ = SqlSink(f"values{next(NUMBERS)}", APP), dict[str, str]()

    def note(event: Any, _session: Session) -> None:
        given_[event.key] = repr(shown(event))

    note.__annotations__ = {"event": Noted, "_session": Session, "return": None}
    sink.on(note)
    async with sinking(log, url, sink) as running:
        await until(lambda: running.applied == events)
    return given_


async def viewed(log: EventLog, record: Record) -> str:
    """Return what a live view is given of a record, as Kafka's client hands it to Faust."""
    from faust.types.tuples import ConsumerMessage  # few tests need Faust

    from eventlib.live.counters import ViewCounters
    from eventlib.live.events import EventSchema
    from services.order import views

    schema = EventSchema(views.app.connection, {record.type or ""}, lambda: log, ViewCounters())
    place = views.app.connection.physical(record.topic), record.partition, record.offset
    at_s, headers = record.timestamp_ms / 1_000, headers_of(record)
    message = ConsumerMessage(*place, at_s, 0, headers, record.key, record.value, None)
    found = (await schema.compile(views.app)(message)).value
    return repr(shown(cast("Recorded", found).event))


@settings(max_examples=3, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(drawn=st.lists(values_of(EVERY), min_size=4, max_size=8))
async def test_sinks_and_live_views_are_given_what_the_bytes_give_back(
    drawn: list[dict[str, Any]], sink_url: str
) -> None:
    published: list[Event] = [Noted(key=str(number), **values) for number, values in enumerate(drawn)]
    expected = {str(number): repr(shown(event)) for number, event in enumerate(published)}
    async with open_log("memory://", APP) as log:
        await log.publish_many(published)
        records = await everything(log, contract_of(Noted).topic.name)
        assert {(each.key or b"").decode(): await viewed(log, each) for each in records} == expected
        assert await sunk(log, sink_url, len(published)) == expected
