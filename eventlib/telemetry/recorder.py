"""The observer of a runtime: it notes what belongs to traces, and counts what metrics report."""

from collections.abc import Coroutine, Sequence
from functools import partial
from time import time_ns
from typing import Any

from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.trace import SpanKind

from eventlib.errors import TerminalError
from eventlib.model.effect import Asking
from eventlib.model.identity import is_sampled
from eventlib.model.record import Record
from eventlib.model.service import Service
from eventlib.model.signatures import name_of
from eventlib.runtime.transaction import Answer, ProcessingSpan, Transaction
from eventlib.sinks.consuming import Applied
from eventlib.telemetry.awaited import AwaitedRequests
from eventlib.telemetry.counters import Counters
from eventlib.telemetry.spans import (
    Attributes,
    EmittedSpan,
    Joins,
    SpanMaker,
    Times,
    await_span_data,
    context_of,
    effect_span_data,
    effect_span_id,
    made,
    span_id_of,
    wait_span_data,
    within,
)
from eventlib.telemetry.tracer import Tracer
from eventlib.webhooks.sending import Attempt


class Recorder:
    """See `eventlib.runtime.instrumentation.Observer`.

    Between two inputs it appends to lists and counts; spans are made of that in the tracer's thread.
    """

    clock = staticmethod(time_ns)

    def __init__(self, maker: SpanMaker, tracer: Tracer | None, counters: Counters | None) -> None:
        self.maker = maker
        self.tracer = tracer
        self._counters = counters
        self._joins = Joins()
        self._attempts: dict[str, int] = {}
        self._awaited = AwaitedRequests()

    def published(self, records: Sequence[Record], caller: str | None, began_ns: int) -> None:
        """See `eventlib.eventlog.Published`."""
        if self.tracer is not None:
            traced = [record for record in records if is_sampled(record.traceparent)]
            if traced:
                parent = None if caller is None else context_of(caller)
                by = "outside" if caller is None else self.maker.http
                self.tracer.note(partial(self.maker.of_events, by, traced, parent, Times(began_ns, time_ns())))

    def delivered(self, attempt: Attempt) -> None:
        """Take note of a request to a subscriber of webhooks."""
        if self.tracer is not None and is_sampled(attempt.traceparent):
            self.tracer.note(partial(self._delivery, attempt, time_ns()))

    def _delivery(self, attempt: Attempt, ended_ns: int) -> list[ReadableSpan]:
        event, parent = attempt.events[0], context_of(attempt.parent or "")
        attributes: Attributes = {"eventlib.subscriber": attempt.subscriber, "messaging.message.id": event.id}
        attributes |= {"cloudevents.event_type": event.type, "messaging.batch.message_count": len(attempt.events)}
        error = (attempt.answer.error or "").partition(":")[0]
        span_data = EmittedSpan(f"deliver {attempt.subscriber}", SpanKind.CLIENT, attributes, error)
        own = within(parent, context_of(attempt.traceparent or "").span_id)
        return [made(own, parent, self.maker.resource("webhooks"), span_data, Times(attempt.began_ns, ended_ns))]

    def applied(self, applied: Applied) -> None:
        """Take note of a sink's transaction: a span in the trace of each event."""
        traced = [each for each in applied.outcomes if is_sampled(each[0].traceparent)]
        if self.tracer is not None and traced:
            self.tracer.note(partial(self._rows, applied, traced))

    def _rows(self, applied: Applied, traced: Sequence[tuple[Record, str]]) -> list[ReadableSpan]:
        found, resource = list[ReadableSpan](), self.maker.resource("sinks")
        times = Times(applied.began_ns, applied.ended_ns)
        for record, error in traced:
            attributes: Attributes = {"eventlib.sink": applied.sink, "messaging.message.id": record.event_id}
            attributes |= {
                "cloudevents.event_type": record.type or "",
                "messaging.batch.message_count": len(applied.outcomes),
            }
            parent = context_of(record.traceparent or "")
            own = within(parent, span_id_of("sink", applied.sink, record.event_id, str(applied.began_ns)))
            span_data = EmittedSpan(f"apply {applied.sink}", SpanKind.CONSUMER, attributes, error.partition(":")[0])
            found.append(made(own, parent, resource, span_data, times))
        return found

    def committed(self, service: Service, partition: int, transaction: Transaction, append_began_ns: int) -> None:
        """See `Observer`."""
        del partition
        now = time_ns()
        self._awaited.note(service, transaction)
        if transaction.spans:
            self._note(service, transaction.spans, now)
        if self._counters is not None:
            append_s = (now - append_began_ns) / 1e9 if append_began_ns else None
            self._counters.committed(service, transaction, append_s)

    def passed_by(self, service: Service, partition: int, steps: Sequence[ProcessingSpan]) -> None:
        """See `Observer`."""
        del partition
        self._note(service, steps, time_ns())

    def _note(self, of: Service, steps: Sequence[ProcessingSpan], now: int) -> None:
        service = of.name
        for step in steps:
            if step.awaited:
                self._note_awaited(of, step)
        traced = [step for step in steps if is_sampled(step.context)]
        if self._counters is not None:
            self._counters.handled(service, steps)
            if self.tracer is None:
                self._time(service, traced)
        if self.tracer is not None and traced:
            self.tracer.note(partial(self._spans, service, traced, now))

    def _note_awaited(self, service: Service, step: ProcessingSpan) -> None:
        """Count what became of an awaited answer, and make a span of the wait, where this process made the request."""
        found = self._awaited.answered(service, step)
        if found is None:
            return
        if self._counters is not None:
            self._counters.awaited(service.name, found, step.ended_ns)
        if self.tracer is not None and found.request is not None and is_sampled(found.request.traceparent):
            span_data = await_span_data(found.request, found.effect, found.outcome)
            times = Times(found.request.timestamp_ms * 1_000_000, step.ended_ns)
            self.tracer.note(partial(self._attempt_span, service.name, found.request, span_data, times, "await"))

    def _time(self, service: str, steps: Sequence[ProcessingSpan]) -> None:
        for step in steps if self._counters is not None else ():
            self._counters.timed(service, step)  # type: ignore[union-attr]  # looked at in the line above

    def _spans(self, service: str, steps: Sequence[ProcessingSpan], committed_ns: int) -> list[ReadableSpan]:
        self._time(service, steps)
        return [
            span for step in steps for span in self.maker.of_step(service, step, committed_ns, self._joins.links(step))
        ]

    async def attempt(
        self, service: Service, request: Record, asking: Asking, call: Coroutine[Any, Any, object]
    ) -> object:
        """See `Observer`."""
        number = self._attempts[request.event_id] = self._attempts.get(request.event_id, 0) + 1
        began, error, outcome = time_ns(), "", "answered"
        try:
            return await call
        except Exception as raised:
            error, outcome = type(raised).__name__, "refused" if isinstance(raised, TerminalError) else "failed"
            raise
        except BaseException as raised:
            error, outcome = type(raised).__name__, "cancelled"
            raise
        finally:
            times = Times(began, time_ns())
            name = name_of(asking.call)
            if self._counters is not None:
                self._counters.attempted(service.name, name, outcome, (times.ended_ns - began) / 1e9)
            if self.tracer is not None and is_sampled(request.traceparent):
                span_data = effect_span_data(request, name, asking.port, number, error)
                self.tracer.note(partial(self._attempt_span, service.name, request, span_data, times))

    def waited(self, service: Service, request: Record, asking: Asking, limit: str, seconds: float) -> None:
        """See `Observer`."""
        name, now = name_of(asking.call), time_ns()
        if self._counters is not None:
            self._counters.waited(service.name, name, seconds)
        if self.tracer is not None and is_sampled(request.traceparent):
            span_data = wait_span_data(request, name, limit)
            times = Times(now - int(seconds * 1e9), now)
            self.tracer.note(partial(self._attempt_span, service.name, request, span_data, times, "wait"))

    def answered(self, service: Service, request: Record, began_ns: int, answer: Answer) -> None:
        """See `Observer`."""
        self._attempts.pop(request.event_id, None)
        effect = next(d.effects[t] for d in service.deciders for t in d.effects if t.__name__ == request.type)
        if self._counters is not None and answer.event is None:
            self._counters.stalled(service.name, name_of(effect.ask.call))
        if self.tracer is not None and is_sampled(request.traceparent):
            error = "" if answer.event is not None else answer.reason.partition(":")[0]
            span_data = effect_span_data(request, name_of(effect.ask.call), effect.ask.port, error=error)
            self.tracer.note(partial(self._effect_span, service.name, request, span_data, Times(began_ns, time_ns())))

    def _effect_span(self, service: str, request: Record, span_data: EmittedSpan, times: Times) -> list[ReadableSpan]:
        parent = context_of(request.traceparent or "")
        context = within(parent, effect_span_id(request.event_id))
        return [made(context, parent, self.maker.resource(service), span_data, times)]

    def _attempt_span(
        self, service: str, request: Record, span_data: EmittedSpan, times: Times, kind: str = "attempt"
    ) -> list[ReadableSpan]:
        parent = within(context_of(request.traceparent or ""), effect_span_id(request.event_id))
        context = within(parent, span_id_of(kind, request.event_id, str(times.began_ns)))
        return [made(context, parent, self.maker.resource(service), span_data, times)]
