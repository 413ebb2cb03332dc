"""Deciders, sinks and live views are given values as their bytes give them back."""

import asyncio
from collections import defaultdict
from dataclasses import replace
from datetime import UTC, datetime
from itertools import count
from types import GenericAlias
from typing import TYPE_CHECKING, Any, cast

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy.orm import Session

from eventlib import Choreography, Decider, Event, EventLog, Meta, Runtime, Service, open_log
from eventlib.log.kafka.batches import headers_of
from eventlib.model.event import contract_of
from eventlib.model.record import Record
from eventlib.queries.parked import parkings
from eventlib.replay import replay
from eventlib.sinks import SqlSink
from tests.apps.fields import EVERY, event_of, shown, state_of, values_of
from tests.integration.reopening import events, everything
from tests.integration.sinking import sinking
from tests.operators import preview_retries, request_retry
from tests.waiting import until

if TYPE_CHECKING:
    from eventlib.live.events import Recorded

NEVER = datetime(2999, 1, 1, tzinfo=UTC)
Began, Called = event_of("Began", EVERY, request=True), event_of("Called", EVERY)
Accepted, Reported = event_of("Accepted", EVERY), event_of("Reported", EVERY, request=True)
Ended = event_of("Ended", EVERY, final=True)
State = state_of("State", {**EVERY, "ended": (bool, st.booleans())})
ENDS = GenericAlias(list, (Ended,))


class Given:
    """An application that notes what each of its functions is given; `broken`: its last handler raises."""

    def __init__(self, values: dict[str, Any]) -> None:  # noqa: C901  one function for each part of a decider
        self.seen = defaultdict[str, list[Any]](list)
        self.broken = True
        self.values = values
        steps: Any = Decider("step", state=State, key="key")

        def note(who: str, *given: Any) -> None:
            self.seen[who] += [shown(each) for each in given if not isinstance(each, Meta)]

        def evolve(state: Any, event: Event) -> Any:
            note(f"evolve {type(event).__name__}", event)
            return replace(state, ended=isinstance(event, Ended), **values)

        def begin(_: Any, began: Any) -> Any:
            note("begin", began)
            return [Called(key=began.key, **values)]

        async def call(called: Any) -> Any:
            note("call", called)
            return Accepted(key=called.key, **values)

        def accept(state: Any, accepted: Any) -> Any:
            note("accept", state, accepted)
            return []

        def end(state: Any, reported: Any) -> Any:
            if self.broken:
                raise ValueError("broken")
            note("end", state, reported)
            return [Ended(key=reported.key, **values)]

        def late_at(state: Any) -> Any:
            note("late_at", state)
            return NEVER if state.text is not None and not state.ended else None

        def late(_: Any) -> Any:
            return []

        for function, given_, returned in (
            (evolve, {"state": State, "event": Event}, State), (begin, {"_": State, "began": Began}, GenericAlias(list, (Called,))),
            (call, {"called": Called}, Accepted), (accept, {"state": State, "accepted": Accepted}, ENDS),
            (end, {"state": State, "reported": Reported}, ENDS), (late_at, {"state": State}, datetime | None),
            (late, {"_": State}, ENDS),
        ):  # fmt: skip
            function.__annotations__ = {**given_, "return": returned}
        steps.evolve(evolve)
        within = steps.deadline(late_at)
        within.passed(late)
        steps.effect(Called, awaits=Reported, within=within)(call)
        for handler in (begin, accept, end):
            steps.on(handler)
        self.app = Choreography("steps", [Service("steps", deciders=[steps])])


async def on(log: EventLog, *published: Any) -> None:
    async with Runtime(log) as running, asyncio.timeout(60):
        for each in published:
            await log.publish(each)
        await running.idle()


async def decoded(log: EventLog, cls: type[Event]) -> list[str]:
    """What sinks, live views and projections are given: a record that is decoded."""
    return [repr(shown(each)) for each in await events(log, cls.__contract__.topic.name)]  # type: ignore[union-attr]  # it has one


@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(values=values_of(EVERY))
async def test_every_function_is_given_what_the_bytes_give_back(
    values: dict[str, Any], tmp_path_factory: pytest.TempPathFactory
) -> None:
    url = f"sqlite:///{tmp_path_factory.mktemp('given')}/log.db"
    here = Given(values)
    async with open_log(url, here.app) as log:
        await on(log, Began(key="1", **values), Reported(key="1", **values))
        (parked,) = await parkings(log)
        here.broken = False
        (preview,) = await preview_retries(log, [parked])
        assert [repr(shown(each)) for each in preview.emitted] == [repr(shown(Ended(key="1", **values)))]
        await request_retry(log, parked, "ada")
        await on(log)
        told = here.seen
        bytes_of = {cls: await decoded(log, cls) for cls in (Began, Called, Accepted, Reported)}
    for who, cls in (("begin", Began), ("call", Called), ("evolve Called", Called), ("evolve Accepted", Accepted)):
        assert {*map(repr, told[who])} == {*bytes_of[cls]}, who
    assert {*map(repr, told["accept"][1::2])} == {*bytes_of[Accepted]}
    assert {*map(repr, told["end"][1::2])} == {*bytes_of[Reported]}
    later = Given(values)
    later.broken = False
    async with open_log(url, later.app, read_only=True) as log:
        report = await replay(log)
    assert (report.same, report.decisions > 0) == (True, True)
    assert {*later.seen} >= {"begin", "accept", "end"}
    for who, given_ in later.seen.items():
        assert {*map(repr, given_)} <= {*map(repr, told[who])}, who


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
    drawn: list[dict[str, Any]], database_url: str
) -> None:
    published: list[Event] = [Noted(key=str(number), **values) for number, values in enumerate(drawn)]
    expected = {str(number): repr(shown(event)) for number, event in enumerate(published)}
    async with open_log("memory://", APP) as log:
        await log.publish_many(published)
        records = await everything(log, contract_of(Noted).topic.name)
        assert {(each.key or b"").decode(): await viewed(log, each) for each in records} == expected
        assert await sunk(log, database_url, len(published)) == expected
