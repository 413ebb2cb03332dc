"""Instruments from the catalogue, observed when asked for: the state of a runtime is read then, not counted before."""

from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import partial
from pathlib import Path

from opentelemetry.metrics import CallbackOptions, Observation
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import MetricReader
from opentelemetry.sdk.resources import Resource

from eventlib.errors import RetryableError
from eventlib.log.base import TopicPartition
from eventlib.model.decider import FORGET
from eventlib.runtime.breaker import BreakerState
from eventlib.runtime.parking.parked import PAUSED
from eventlib.runtime.parking.pauses import KINDS
from eventlib.runtime.runner import TaskRunner
from eventlib.runtime.runtime import Runtime
from eventlib.telemetry.catalogue import METRICS, Meter, Metric
from eventlib.telemetry.counters import Counters, Labels, Snapshot, ends_sagas, size_of
from eventlib.telemetry.tracer import Tracer

Values = Mapping[Labels, float]

_STATES = {BreakerState.CLOSED: 0, BreakerState.HALF_OPEN: 1, BreakerState.OPEN: 2}


class Instruments:
    """The metrics of one process, of those that its kind has. `refresh` is called before they are read."""

    def __init__(
        self, reader: MetricReader, resource: Resource, measured_by: Meter, see: Callable[[], Awaitable[Snapshot]]
    ) -> None:
        self._provider = MeterProvider([reader], resource)
        self._meter = self._provider.get_meter("eventlib")
        self._see = see
        self._seen = Snapshot()
        for metric in METRICS.values():
            if metric.measured_by == measured_by and metric.kind != "histogram":
                self._make(metric)

    async def refresh(self) -> None:
        """Take a new snapshot."""
        self._seen = await self._see()

    def close(self) -> None:
        """Report nothing any more."""
        self._provider.shutdown()

    def _make(self, metric: Metric) -> None:
        is_counter = metric.kind == "counter"
        create = self._meter.create_observable_counter if is_counter else self._meter.create_observable_gauge
        create(metric.name, [partial(self._observed, metric)], metric.unit, metric.description)

    def _observed(self, metric: Metric, _: CallbackOptions) -> Iterable[Observation]:
        for labels, value in self._seen.values.get(metric.name, {}).items():
            yield Observation(value, dict(zip(metric.labels, labels, strict=True)))


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
