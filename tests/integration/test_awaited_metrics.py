"""What is measured of answers that come later: whether they came, late, twice or never, and how long after the request."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from eventlib import FOREVER, Choreography, Decider, Event, EventLog, Meta, Runtime, Service, open_log, replace

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import ReadableSpan
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    from eventlib.telemetry.counters import Counters
    from eventlib.telemetry.tracer import Tracer

DAY_S = 86_400.0


class Wanted(Event, topic="wanted", key="key", request=True):
    key: str
    within_s: float = DAY_S


class Asked(Event, topic="questions", key="key"):
    key: str
    within_s: float


class Accepted(Event, topic="questions", key="key"):
    key: str


class Answered(Event, topic="questions", key="key", final=True):
    key: str


class GivenUp(Event, topic="questions", key="key", final=True):
    key: str


class Reported(Event, topic="reports", key="key", request=True, once_for=timedelta(days=3)):
    key: str


@dataclass(frozen=True)
class Question:
    asked_at: datetime | None = None
    accepted_at: datetime | None = None
    within_s: float = 0
    has_ended: bool = False


questions = Decider("question", state=Question, key="key")


@questions.evolve
def evolve(question: Question, event: Event, meta: Meta) -> Question:
    match event:
        case Asked(within_s=within_s):
            return replace(question, asked_at=meta.recorded_at, within_s=within_s)
        case Accepted():
            return replace(question, accepted_at=meta.recorded_at)
        case Answered() | GivenUp():
            return replace(question, has_ended=True)
        case _:
            return question


@questions.on
def ask(_question: Question, wanted: Wanted) -> list[Asked]:
    return [Asked(key=wanted.key, within_s=wanted.within_s)]


@questions.on
def end(question: Question, report: Reported) -> list[Answered]:
    return [] if question.has_ended else [Answered(key=report.key)]


questions.follows(Accepted, Answered)


@questions.deadline
def answered_by(question: Question) -> datetime | None:
    if question.accepted_at is None or question.has_ended:
        return None
    return question.accepted_at + timedelta(seconds=question.within_s)


@answered_by.passed
def give_up(_question: Question, meta: Meta) -> list[GivenUp]:
    return [GivenUp(key=meta.subject)]


class Desk:
    """An external system that accepts every question, answers those named so at once, and keeps one waiting."""

    def __init__(self) -> None:
        self.opened = asyncio.Event()


@questions.effect(Asked, retry=FOREVER, awaits=Reported, within=answered_by)
async def send(asked: Asked, desk: Desk) -> Accepted | Answered:
    if asked.key == "early":
        await desk.opened.wait()
    return Answered(key=asked.key) if asked.key == "at once" else Accepted(key=asked.key)


app = Choreography("questions", [Service("questions", deciders=[questions], effects="all")])


class Measured:
    def __init__(self, log: EventLog, runtime: Runtime, desk: Desk, counters: "Counters", tracer: "Tracer") -> None:
        self.log, self.runtime, self.desk, self.counters, self.tracer = log, runtime, desk, counters, tracer

    async def publish(self, event: Event, id_: str | None = None) -> None:
        await self.log.publish(event, idempotency_key=id_)
        if self.desk.opened.is_set():
            await self.runtime.idle()

    def counts(self) -> dict[str, float]:
        return {outcome: count for (*_, outcome), count in self.counters.answers_awaited.items() if count}

    def came(self) -> int:
        samples = self.counters.durations["eventlib.awaited.duration"].family().samples
        return int(sum(each.value for each in samples if each.name.endswith("_count")))


@asynccontextmanager
async def measured(exporter: "InMemorySpanExporter") -> AsyncIterator[Measured]:
    from eventlib.telemetry.counters import Counters
    from eventlib.telemetry.recorder import Recorder
    from eventlib.telemetry.spans import SpanMaker
    from eventlib.telemetry.tracer import Tracer

    counters, tracer = Counters(app.services), Tracer(exporter)
    recorder, desk = Recorder(SpanMaker("eventlib", app.name), tracer, counters), Desk()
    tracer.start()
    try:
        async with (
            open_log("memory://", app) as log,
            Runtime(log, ports={"desk": desk}, observer=recorder) as runtime,
            asyncio.timeout(120),
        ):
            yield Measured(log, runtime, desk, counters, tracer)
    finally:
        tracer.close()


@pytest.fixture(params=["1", "0"])
def exporter(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> "tuple[InMemorySpanExporter, bool]":
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    monkeypatch.setenv("OTEL_TRACES_SAMPLER_ARG", request.param)
    return InMemorySpanExporter(), request.param == "1"


def awaits_in(spans: "tuple[ReadableSpan, ...]") -> "list[ReadableSpan]":
    return [span for span in spans if span.name == "send await"]


async def test_each_outcome_is_counted_and_a_wait_is_a_span_from_its_request(
    exporter: "tuple[InMemorySpanExporter, bool]",
) -> None:
    from eventlib.telemetry.spans import effect_span_id

    spans, is_traced = exporter
    async with measured(spans) as seen:
        await seen.publish(Wanted(key="early"))
        await until(seen.counts, {})
        await seen.publish(Reported(key="early"), "r0")
        await until(seen.counts, {"came": 1})  # before the request's own answer
        seen.desk.opened.set()
        await seen.publish(Wanted(key="1"))
        await seen.publish(Reported(key="1"), "r1")
        await seen.publish(Reported(key="1"), "r1")
        await seen.publish(Reported(key="1"), "r2")
        assert seen.counts() == {"came": 2, "twice": 2}
        await seen.publish(Wanted(key="2", within_s=0.001))
        await until(seen.counts, {"came": 2, "twice": 2, "never": 1})
        await seen.publish(Reported(key="2"), "r3")
        await seen.publish(Reported(key="unknown"), "r4")
        await seen.publish(Wanted(key="at once"))
        await until(seen.counts, {"came": 2, "twice": 2, "never": 1, "late": 2})
        assert seen.came() == 2
        seen.tracer.flush()
    found = awaits_in(spans.get_finished_spans())
    outcomes = [(span.attributes or {})["eventlib.awaited"] for span in found]
    assert sorted(map(str, outcomes)) == (["came", "came", "never"] if is_traced else [])
    for span in found:
        asked = str((span.attributes or {})["messaging.message.id"])
        assert span.parent is not None
        assert span.parent.span_id == effect_span_id(asked)
        assert span.start_time is not None
        assert span.end_time is not None
        assert span.start_time <= span.end_time
        assert span.status.is_ok == ((span.attributes or {})["eventlib.awaited"] == "came")


async def until(counts: object, expected: dict[str, float]) -> None:
    assert callable(counts)
    while counts() != expected:
        await asyncio.sleep(0.01)
