"""From processing spans to OpenTelemetry's: ids and times are known, so that a span is made afterwards; and span links."""

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import Any, NamedTuple

from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import Link, SpanContext, SpanKind, Status, StatusCode, TraceFlags

from eventlib.model.identity import is_sampled
from eventlib.model.record import Record
from eventlib.runtime.awaited import NEVER, OUTCOMES
from eventlib.runtime.transaction import ProcessingSpan

SCOPE = InstrumentationScope("eventlib")
SAMPLED = TraceFlags(TraceFlags.SAMPLED)
FAILED = StatusCode.ERROR

Attributes = dict[str, str | int]


class Times(NamedTuple):
    """When something began and ended, in ns since 1970."""

    began_ns: int
    ended_ns: int


class EmittedSpan(NamedTuple):
    """What a span is about, beside its place in the trace."""

    name: str
    kind: SpanKind
    attributes: Attributes
    error: str = ""
    links: Sequence[Link] = ()


def context_of(traceparent: str) -> SpanContext:
    """Return the span that a trace context names."""
    return SpanContext(int(traceparent[3:35], 16), int(traceparent[36:52], 16), is_remote=True, trace_flags=SAMPLED)


def span_id_of(*names: str) -> int:
    """Return the id of a span that no event's id stands for."""
    return int.from_bytes(blake2b("\x1f".join(names).encode(), digest_size=8).digest(), "big") or 1


def within(parent: SpanContext, span_id: int) -> SpanContext:
    """Return a span of the same trace."""
    return SpanContext(parent.trace_id, span_id, is_remote=False, trace_flags=SAMPLED)


def made(
    context: SpanContext, parent: SpanContext | None, resource: Resource, span_data: EmittedSpan, times: Times
) -> ReadableSpan:
    """Return a span that has ended."""
    return ReadableSpan(
        span_data.name,
        context,
        parent,
        resource,
        span_data.attributes | {"error.type": span_data.error} if span_data.error else span_data.attributes,
        (),
        span_data.links,
        span_data.kind,
        status=Status(FAILED) if span_data.error else _UNSET,
        start_time=times.began_ns,
        end_time=max(times),
        instrumentation_scope=SCOPE,
    )


_UNSET = Status(StatusCode.UNSET)


class SpanMaker:
    """Makes the spans of what a process did; `system` is the kind of its log."""

    def __init__(self, system: str, namespace: str) -> None:
        self._system = system
        self._namespace = namespace
        self.http = f"{namespace}-http"
        """What the spans of requests come from, and those of what is published on their behalf."""
        self._resources: dict[str, Resource] = {}

    def resource(self, service: str) -> Resource:
        """Return a service as what its spans come from; with the resource attributes of the environment."""
        found = self._resources.get(service)
        if found is None:
            named = {"service.name": service, "service.namespace": self._namespace}
            found = self._resources[service] = Resource.create(named)
        return found

    def of_step(
        self, service: str, step: ProcessingSpan, committed_ns: int, links: Sequence[Link]
    ) -> list[ReadableSpan]:
        """Return the span of a handling, and those of the events that it emitted; its links are what it had waited for."""
        context = step.context or ""
        if step.record is None and not step.deadline:
            cause = step.emitted[0].causation_id or ""
            handling = within(context_of(context), effect_span_id(cause))
            return self.of_events(service, step.emitted, handling, Times(step.ended_ns, committed_ns))
        parent = context_of(context)
        about = step.deadline if step.record is None else step.record.event_id
        tried = "parked" if step.failure else ""
        handling = within(parent, span_id_of(service, step.decider, step.key, about, context[36:52], tried))
        span = made(
            handling, parent, self.resource(service), self._handled(step, links), Times(step.began_ns, step.ended_ns)
        )
        return [span, *self.of_events(service, step.emitted, handling, Times(step.ended_ns, committed_ns))]

    def of_events(
        self, service: str, records: Sequence[Record], parent: SpanContext | None, times: Times
    ) -> list[ReadableSpan]:
        """Return the spans of events: from when they were emitted to when they stood on the log."""
        resource = self.resource(service)
        return [
            made(_own(record), parent, resource, self._sent(record), times)
            for record in records
            if record.type and not record.topic.endswith(_COPIES)
        ]

    def _handled(self, step: ProcessingSpan, links: Sequence[Link]) -> EmittedSpan:
        record, error = step.record, step.failure.partition(":")[0]
        if record is None:
            attributes: Attributes = {"eventlib.decider": step.decider, "eventlib.key": step.key}
            return EmittedSpan(f"deadline {step.deadline}", SpanKind.INTERNAL, attributes, error, links)
        attributes = self._attributes(record, "process")
        attributes["eventlib.decider"] = step.decider
        attributes["messaging.kafka.offset"] = record.offset
        if step.awaited in OUTCOMES:
            attributes["eventlib.awaited"] = step.awaited
        if record.traceparent and step.context and record.traceparent[3:35] != step.context[3:35]:
            links = [*links, Link(context_of(record.traceparent))]
        return EmittedSpan(f"process {record.topic}", SpanKind.CONSUMER, attributes, error, links)

    def _sent(self, record: Record) -> EmittedSpan:
        return EmittedSpan(f"send {record.topic}", SpanKind.PRODUCER, self._attributes(record, "send"))

    def _attributes(self, record: Record, operation: str) -> Attributes:
        return {
            "messaging.system": self._system,
            "messaging.operation.name": operation,
            "messaging.operation.type": operation,
            "messaging.destination.name": record.topic,
            "messaging.destination.partition.id": str(record.partition),
            "messaging.message.id": record.event_id,
            "messaging.message.conversation_id": record.correlation_id or record.event_id,
            "cloudevents.event_type": record.type or "",
        }


_COPIES = (".latest", ".parked")


def effect_span_id(request_id: str) -> int:
    """Return the id of the span of an effect, from its first attempt to its answer."""
    return span_id_of("effect", request_id)


def _own(record: Record) -> SpanContext:
    traceparent = record.traceparent or ""
    return SpanContext(int(traceparent[3:35], 16), int(traceparent[36:52], 16), is_remote=False, trace_flags=SAMPLED)


def effect_span_data(request: Record, name: str, port: str | None, attempt: int = 0, error: str = "") -> EmittedSpan:
    """Return the attributes of the span of an effect, or of one attempt of it, counted from 1."""
    attributes: Attributes = {"eventlib.effect": name, "messaging.message.id": request.event_id}
    attributes["cloudevents.event_type"] = request.type or ""
    if port is not None:
        attributes["eventlib.port"] = port
    if attempt:
        attributes["eventlib.attempt"] = attempt
        return EmittedSpan(f"{name} attempt", SpanKind.CLIENT, attributes, error)
    return EmittedSpan(name, SpanKind.INTERNAL, attributes, error)


def wait_span_data(request: Record, name: str, limit: str) -> EmittedSpan:
    """Return the attributes of the span of a wait for a turn at a limit."""
    attributes: Attributes = {
        "eventlib.effect": name,
        "eventlib.limit": limit,
        "messaging.message.id": request.event_id,
    }
    return EmittedSpan(f"{name} wait", SpanKind.INTERNAL, attributes)


def await_span_data(request: Record, name: str, outcome: str) -> EmittedSpan:
    """Return the attributes of the span of a wait: from an effect's request to the answer that came later, or to its deadline."""
    attributes: Attributes = {
        "eventlib.effect": name,
        "eventlib.awaited": outcome,
        "messaging.message.id": request.event_id,
    }
    return EmittedSpan(f"{name} await", SpanKind.INTERNAL, attributes, outcome if outcome == NEVER else "")


def short(attributes: Mapping[str, Any] | None) -> str:
    """Return what a person looks for first in a span's attributes."""
    span_data = attributes or {}
    names = ("cloudevents.event_type", "eventlib.decider", "eventlib.effect", "eventlib.attempt", "error.type")
    return " ".join(str(span_data[name]) for name in names if name in span_data)


_MOST_KEYS = 10_000
_MOST_LINKS = 64


class Joins:
    """Remembers, for each decider and key, the events of one trace that it handled without an answer.

    In bounded memory, and only what this process has handled itself: a task that moves leaves some links out.
    """

    def __init__(self) -> None:
        self._handled: OrderedDict[tuple[str, str, str], list[str]] = OrderedDict()

    def links(self, step: ProcessingSpan) -> list[Link]:
        """Record a step, and return what led to it beside the event that it handled."""
        if step.context is None or step.failure:
            return []
        name = step.decider, step.key, step.context[3:35]
        if step.emitted:
            return [Link(context_of(each)) for each in self._handled.pop(name, ())]
        if step.record is not None and step.record.traceparent and is_sampled(step.context):
            handled = self._handled.setdefault(name, [])
            handled.append(step.record.traceparent)
            del handled[:-_MOST_LINKS]
            if len(self._handled) > _MOST_KEYS:
                self._handled.popitem(last=False)
        return []
