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
    """The metrics of one process, of those that its kind has. `look` is called before they are read."""

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

    async def look(self) -> None:
        """See what the process is at."""
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


class Sight:
    """What a process that runs services is at; it looks in the loop that runs them."""

    def __init__(self, figures: Counters, tracer: Tracer | None) -> None:
        self._figures, self._tracer = figures, tracer
        self._runtime: Runtime | None = None
        self._places: Mapping[str, Path] = {}

    def run(self, runtime: Runtime, places: Mapping[str, Path]) -> None:
        """Tell of this runtime, and of the sizes of what is at these places."""
        self._runtime, self._places = runtime, places

    async def see(self) -> Snapshot:
        """See what the runtime is at."""
        seen = Snapshot()
        _count(seen, self._figures)
        seen.add("eventlib.spans.exported", (), 0 if self._tracer is None else self._tracer.exported)
        seen.add("eventlib.spans.dropped", (), 0 if self._tracer is None else self._tracer.dropped)
        if self._runtime is not None:
            await _look_at(seen, self._runtime)
        for metric, path in self._places.items():
            seen.add(metric, (), size_of(path))
        return seen


def _count(seen: Snapshot, figures: Counters) -> None:
    counters = {
        "eventlib.events.said": figures.said,
        "eventlib.inputs.handled": figures.inputs,
        "eventlib.inputs.failed": figures.failures,
        "eventlib.transactions": figures.transactions,
        "eventlib.deadlines.passed": figures.deadlines,
        "eventlib.effects.parked": figures.effects_parked,
    }
    for metric, counts in counters.items():
        for labels, count in counts.items():
            seen.add(metric, labels, count)
    for labels, keys in figures.overdue.items():
        seen.add("eventlib.sagas.overdue", labels, len(keys))


async def _look_at(seen: Snapshot, runtime: Runtime) -> None:
    for port, state in runtime.breakers.items():
        seen.add("eventlib.breaker.state", (port,), _STATES[state])
    for service, line in runtime.lines:
        seen.add("eventlib.limit.waiting", (service, line.queue.name), line.queue.waiting)
        seen.add("eventlib.limit.turns", (service, line.queue.name), line.turns)
    for (service, _), restoring in [*runtime.restoring.items()]:
        seen.add("eventlib.restore.remaining", (service,), restoring.end - restoring.at)
    for each in runtime.tasks:
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
