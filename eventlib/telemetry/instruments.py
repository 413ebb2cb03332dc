"""The catalogue's metrics as Prometheus gets them: the state of a runtime is read when they are asked for, not counted before."""

import re
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from pathlib import Path

from opentelemetry.sdk.resources import Resource
from prometheus_client import Metric as Family
from prometheus_client import generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily
from prometheus_client.registry import Collector

from eventlib.errors import RetryableError
from eventlib.log.base import TopicPartition
from eventlib.model.choreography import Choreography
from eventlib.model.decider import FORGET
from eventlib.runtime.breaker import BreakerState
from eventlib.runtime.parking.parked import PAUSED
from eventlib.runtime.parking.pauses import KINDS
from eventlib.runtime.runner import TaskRunner
from eventlib.runtime.runtime import Runtime
from eventlib.telemetry.catalogue import METRICS, Meter, Metric
from eventlib.telemetry.counters import Counters, DurationBuckets, Labels, Snapshot, ends_sagas, size_of
from eventlib.telemetry.tracer import Tracer

Values = Mapping[Labels, float]

_STATES = {BreakerState.CLOSED: 0, BreakerState.HALF_OPEN: 1, BreakerState.OPEN: 2}


class Exposition(Collector):
    """The metrics of one process, of those that its kind has, and the durations that it has counted itself."""

    def __init__(
        self,
        choreography: Choreography,
        measured_by: Meter,
        see: Callable[[], Awaitable[Snapshot]],
        durations: Iterable[DurationBuckets] = (),
    ) -> None:
        resource = Resource.create({"service.name": choreography.name})
        self._target = {re.sub(r"\W", "_", name): str(value) for name, value in resource.attributes.items()}
        self._metrics = [each for each in METRICS.values() if each.measured_by == measured_by]
        self._see = see
        self._seen = Snapshot()
        self._durations = [*durations]

    async def text(self) -> bytes:
        """Return the metrics of now, in Prometheus's text format."""
        self._seen = await self._see()
        return generate_latest(self)

    def collect(self) -> Iterator[Family]:
        """See `Collector`."""
        yield InfoMetricFamily("target", "Target metadata", value=self._target)
        families = [self._family(each) for each in self._metrics if each.kind != "histogram"]
        yield from (each for each in [*families, *(each.family() for each in self._durations)] if each.samples)

    def _family(self, metric: Metric) -> Family:
        made = CounterMetricFamily if metric.kind == "counter" else GaugeMetricFamily
        found = made(metric.prometheus, metric.description, labels=metric.labels)
        for labels, value in self._seen.values.get(metric.name, {}).items():
            found.add_metric(labels, value)
        return found


class RuntimeReader:
    """Takes snapshots of a process that runs services, in the loop that runs them."""

    def __init__(self, counters: Counters, tracer: Tracer | None) -> None:
        self._counters, self._tracer = counters, tracer
        self._runtime: Runtime | None = None
        self._places: Mapping[str, Path] = {}

    def run(self, runtime: Runtime, places: Mapping[str, Path]) -> None:
        """Report this runtime, and the sizes of what is at these places."""
        self._runtime, self._places = runtime, places

    async def snapshot(self) -> Snapshot:
        """Return what the metrics of the runtime are now."""
        seen = Snapshot()
        _add_counts(seen, self._counters)
        seen.add("eventlib.spans.exported", (), 0 if self._tracer is None else self._tracer.exported)
        seen.add("eventlib.spans.dropped", (), 0 if self._tracer is None else self._tracer.dropped)
        if self._runtime is not None:
            await _add_runtime(seen, self._runtime)
        for metric, path in self._places.items():
            seen.add(metric, (), size_of(path))
        return seen


def _add_counts(seen: Snapshot, counters: Counters) -> None:
    by_metric = {
        "eventlib.events.said": counters.said,
        "eventlib.inputs.handled": counters.inputs,
        "eventlib.inputs.failed": counters.failures,
        "eventlib.transactions": counters.transactions,
        "eventlib.deadlines.passed": counters.deadlines,
        "eventlib.effects.parked": counters.effects_parked,
        "eventlib.awaited.answers": counters.answers_awaited,
    }
    for metric, counts in by_metric.items():
        for labels, count in counts.items():
            seen.add(metric, labels, count)
    for labels, keys in counters.overdue.items():
        seen.add("eventlib.sagas.overdue", labels, len(keys))


async def _add_runtime(seen: Snapshot, runtime: Runtime) -> None:
    for port, state in runtime.breakers.items():
        seen.add("eventlib.breaker.state", (port,), _STATES[state])
    for service, line in runtime.lines:
        seen.add("eventlib.limit.waiting", (service, line.queue.name), line.queue.waiting)
        seen.add("eventlib.limit.turns", (service, line.queue.name), line.turns)
    for (service, _), restoring in [*runtime.restoring.items()]:
        seen.add("eventlib.restore.remaining", (service,), restoring.end - restoring.at)
    for topic in runtime.inputs:
        seen.add("eventlib.topics.faulty", (topic,), topic in runtime.topic_faults)
    for service in {each.service.name for each in runtime.tasks}:
        seen.add("eventlib.causes.parked", (service,), runtime.causes[service])
    for each in runtime.tasks:
        await _add_task(seen, each)


async def _add_task(seen: Snapshot, each: TaskRunner) -> None:
    name = each.service.name
    seen.add("eventlib.restore.remaining", (name,), 0)
    seen.add("eventlib.tasks", (name,), 1)
    seen.add("eventlib.effects.pending", (name,), each.open_effects)
    for place, lag in (await _lags(each)).items():
        seen.add("eventlib.lag", (name, place[0], str(place[1])), lag)
    if each.task is not None:
        parked = each.task.processor.parked
        failed = [key for key in parked.all() if not key.reason.startswith(PAUSED)] if parked.any else ()
        seen.add("eventlib.keys.parked", (name,), len(failed))
        for topic in each.service.inputs:
            seen.add("eventlib.inputs.lost", (name, topic.name), topic.name in each.task.positions.lost)
        for kind in KINDS:
            paused = sum(pause.kind == kind for pause in each.task.processor.pauses.all.values())
            seen.add("eventlib.paused", (name, kind), paused)
        for labels, count in _in_flight(each).items():
            seen.add("eventlib.sagas.in_flight", (name, *labels), count)


async def _lags(loop: TaskRunner) -> Mapping[TopicPartition, int]:
    try:
        return await loop.lags()
    except RetryableError:
        return {}  # the log is away: what is not known is not reported


def _in_flight(loop: TaskRunner) -> Values:
    """Return how many keys of deciders that end sagas have a deadline ahead, but for that of being forgotten."""
    assert loop.task is not None  # noqa: S101  asked for before
    ending = {decider.name for decider in loop.service.deciders if ends_sagas(decider)}
    found = Counter[Labels]()
    for (decider, deadline), count in loop.task.state.due_counts.items():
        if decider in ending and deadline != FORGET:
            found[decider,] += count
    return found
