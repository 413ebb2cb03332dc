"""What is measured of effects that wait at a limit: how many, for how long, how many were let out, and a span of each wait."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest

from eventlib import Choreography, Publication, Runtime, Service, open_log
from eventlib.limits import Limit
from examples.payouts import PayoutSubmitted, SimulatedBank, payouts

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import ReadableSpan
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    from eventlib.telemetry.counters import Counters

OUT, ASKED = 8, 20
limited = Service("payout", deciders=[payouts], limits={"bank": Limit(concurrent=OUT)})
app = Choreography("desk", [limited], facts=[PayoutSubmitted])


class Bank(SimulatedBank):
    """Makes no transfer before it opens."""

    def __init__(self) -> None:
        super().__init__()
        self.open = asyncio.Event()
        self.out = 0

    async def transfer(self, payout_id: str, amount_cents: int) -> None:
        self.out += 1
        await self.open.wait()
        await super().transfer(payout_id, amount_cents)


def counted(counters: "Counters", name: str) -> int:
    samples = counters.durations[name].family().samples
    return int(sum(each.value for each in samples if each.name.endswith("_count")))


@asynccontextmanager
async def running(exporter: "InMemorySpanExporter", bank: Bank) -> "AsyncIterator[tuple[Runtime, Counters]]":
    from eventlib.telemetry.counters import Counters
    from eventlib.telemetry.recorder import Recorder
    from eventlib.telemetry.spans import SpanMaker
    from eventlib.telemetry.tracer import Tracer

    counters, tracer = Counters(app.services), Tracer(exporter)
    recorder = Recorder(SpanMaker("eventlib", app.name), tracer, counters)
    tracer.start()
    try:
        async with (
            open_log("memory://", app) as log,
            Runtime(log, ports={"bank": bank}, observer=recorder) as runtime,
            asyncio.timeout(120),
        ):
            await runtime.idle()  # limits are shared by what each task owns: all of them are here
            await log.publish_many(
                [Publication(PayoutSubmitted(payout_id=str(n), customer_id="c", amount_cents=1)) for n in range(ASKED)]
            )
            yield runtime, counters
            tracer.flush()
    finally:
        tracer.close()


def named(spans: "InMemorySpanExporter", name: str) -> "list[ReadableSpan]":
    return [span for span in spans.get_finished_spans() if span.name == name]


async def test_what_waits_at_a_limit_is_counted_and_each_wait_is_a_span(monkeypatch: pytest.MonkeyPatch) -> None:
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    from eventlib.telemetry.spans import effect_span_id

    monkeypatch.setenv("OTEL_TRACES_SAMPLER_ARG", "1")
    spans, bank = InMemorySpanExporter(), Bank()
    async with running(spans, bank) as (runtime, counters):
        [(service, line)] = runtime.lines
        assert (service, line.queue.name) == ("payout", "bank")
        while (bank.out, line.queue.waiting) != (OUT, ASKED - OUT):
            await asyncio.sleep(0.01)
        assert counted(counters, "eventlib.effect.attempt.duration") == 0
        bank.open.set()
        await runtime.idle()
        assert (line.queue.waiting, line.turns) == (0, ASKED)
        assert counted(counters, "eventlib.effect.attempt.duration") == ASKED
        assert counted(counters, "eventlib.effect.wait.duration") == ASKED
    waits, attempts = named(spans, "transfer wait"), named(spans, "transfer attempt")
    assert len(attempts) == ASKED
    began = {(span.attributes or {})["messaging.message.id"]: span.start_time for span in attempts}
    assert {(span.attributes or {})["messaging.message.id"] for span in waits} == began.keys()
    for span in waits:
        attributes = span.attributes or {}
        assert (attributes["eventlib.limit"], attributes["eventlib.effect"]) == ("bank", "transfer")
        assert span.parent is not None
        assert span.parent.span_id == effect_span_id(str(attributes["messaging.message.id"]))
        assert span.start_time is not None
        assert span.end_time is not None
        assert span.start_time <= span.end_time <= (began[attributes["messaging.message.id"]] or 0)
