"""Instruments from the catalogue, observed when somebody asks: what a runtime is at is read then, not counted before."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from opentelemetry.metrics import CallbackOptions, Observation
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import MetricReader
from opentelemetry.sdk.resources import Resource

from eventlib.decider import FORGET
from eventlib.errors import Retryable
from eventlib.log.port import TopicPartition
from eventlib.runtime import Runtime
from eventlib.runtime.breaker import BreakerState
from eventlib.runtime.loop import TaskLoop
from eventlib.telemetry.catalogue import METRICS, Metric
from eventlib.telemetry.distribution import Labels
from eventlib.telemetry.figures import Figures, ends_sagas
from eventlib.telemetry.tracer import Tracer

Values = Mapping[Labels, float]

_STATES = {BreakerState.CLOSED: 0, BreakerState.HALF_OPEN: 1, BreakerState.OPEN: 2}


@dataclass
class Look:
    """What was seen of a runtime at one moment, by metric."""

    values: dict[str, dict[Labels, float]] = field(default_factory=dict)

    def add(self, metric: str, labels: Labels, value: float) -> None:
        """Add to a value."""
        found = self.values.setdefault(metric, {})
        found[labels] = found.get(labels, 0) + value


class Instruments:
    """The metrics of one process. `look` is called before somebody reads them, in the loop that runs the services."""

    def __init__(self, reader: MetricReader, resource: Resource) -> None:
        self._provider = MeterProvider([reader], resource)
        self._meter = self._provider.get_meter("eventlib")
        self._seen = Look()
        self._runtime: Runtime | None = None
        self._tracer: Tracer | None = None
        self._figures: Figures | None = None
        self._places: Mapping[str, Path] = {}
        for metric in METRICS.values():
            if metric.told_by == "runtime" and metric.kind != "histogram":
                self._make(metric)

    def watch(self, figures: Figures, tracer: Tracer | None) -> None:
        """Tell of these figures."""
        self._figures, self._tracer = figures, tracer

    def run(self, runtime: Runtime, places: Mapping[str, Path]) -> None:
        """Tell of this runtime, and of the sizes of what is at these places."""
        self._runtime, self._places = runtime, places

    async def look(self) -> None:
        """See what the runtime is at."""
        seen = Look()
        if self._figures is not None:
            _count(seen, self._figures)
        seen.add("eventlib.spans.exported", (), 0 if self._tracer is None else self._tracer.exported)
        seen.add("eventlib.spans.dropped", (), 0 if self._tracer is None else self._tracer.dropped)
        if self._runtime is not None:
            await _look_at(seen, self._runtime)
        for metric, path in self._places.items():
            seen.add(metric, (), size_of(path))
        self._seen = seen

    def close(self) -> None:
        """Tell nobody any more."""
        self._provider.shutdown()

    def _make(self, metric: Metric) -> None:
        is_counter = metric.kind == "counter"
        create = self._meter.create_observable_counter if is_counter else self._meter.create_observable_gauge
        create(metric.name, [partial(self._observed, metric)], metric.unit, metric.description)

    def _observed(self, metric: Metric, _: CallbackOptions) -> Iterable[Observation]:
        for labels, value in self._seen.values.get(metric.name, {}).items():
            yield Observation(value, dict(zip(metric.labels, labels, strict=True)))


def _count(seen: Look, figures: Figures) -> None:
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


async def _look_at(seen: Look, runtime: Runtime) -> None:
    for port, state in runtime.breakers.items():
        seen.add("eventlib.breaker.state", (port,), _STATES[state])
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
            parked = each.task.handling.parked
            seen.add("eventlib.keys.parked", (name,), len(parked.all()) if parked.any else 0)
            for labels, count in _in_flight(each).items():
                seen.add("eventlib.sagas.in_flight", (name, *labels), count)


async def _lags(loop: TaskLoop) -> Mapping[TopicPartition, int]:
    try:
        return await loop.lags()
    except Retryable:
        return {}  # the log is away: what is not known is not told


def _in_flight(loop: TaskLoop) -> Values:
    """Return how many keys of deciders that end sagas have a deadline ahead, but for that of being forgotten."""
    assert loop.task is not None  # noqa: S101  asked for before
    ending = {decider.name for decider in loop.service.deciders if ends_sagas(decider)}
    found = Counter[Labels]()
    for (decider, deadline), count in loop.task.state.due_counts.items():
        if decider in ending and deadline != FORGET:
            found[decider,] += count
    return found


def size_of(path: Path) -> int:
    """Return what a file, with those that go with it, or a directory takes on the disk, in bytes."""
    files = path.rglob("*") if path.is_dir() else path.parent.glob(f"{path.name}*")
    return sum(each.stat().st_size for each in files if each.is_file() and each.parent.name != f"{path.name}.state")
