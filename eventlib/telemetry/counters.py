"""What a process counts between two snapshots of its metrics, with durations in buckets."""

from bisect import bisect_left
from collections import Counter, OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from pathlib import Path
from typing import Any

from prometheus_client.core import HistogramMetricFamily

from eventlib.model.decider import Decider
from eventlib.model.event import Event, contract_of
from eventlib.model.personal import personal_fields
from eventlib.model.service import Service
from eventlib.model.signatures import name_of
from eventlib.runtime.awaited import CAME, OUTCOMES
from eventlib.runtime.transaction import ProcessingSpan, Transaction
from eventlib.telemetry.awaited import AwaitedAnswer
from eventlib.telemetry.catalogue import METRICS, Metric

Labels = tuple[str, ...]
"""The values of a metric's labels, in the order of their declaration."""


@dataclass
class Snapshot:
    """What was seen, by metric."""

    values: dict[str, dict[Labels, float]] = field(default_factory=dict)

    def add(self, metric: str, labels: Labels, value: float) -> None:
        """Add to a value."""
        found = self.values.setdefault(metric, {})
        found[labels] = found.get(labels, 0) + value


def size_of(path: Path) -> int:
    """Return what a file, with those that go with it, or a directory takes on the disk, in bytes."""
    files = path.rglob("*") if path.is_dir() else path.parent.glob(f"{path.name}*")
    return sum(each.stat().st_size for each in files if each.is_file() and each.parent.name != f"{path.name}.state")


class DurationBuckets:
    """A histogram of one metric."""

    def __init__(self, metric: Metric) -> None:
        self._metric = metric
        self._bounds = metric.bounds
        self._points: dict[Labels, _Point] = {}

    def add(self, value: float, labels: Labels) -> None:
        """Take a value in."""
        point = self._points.get(labels)
        if point is None:
            point = self._points[labels] = _Point(len(self._bounds) + 1)
        point.buckets[bisect_left(self._bounds, value)] += 1
        point.sum += value

    def family(self) -> HistogramMetricFamily:
        """Return it as Prometheus's library has it."""
        metric = self._metric
        found = HistogramMetricFamily(metric.prometheus, metric.description, labels=metric.labels)
        names = [*map(str, self._bounds), "+Inf"]
        for labels, point in [*self._points.items()]:
            found.add_metric(labels, [*zip(names, accumulate(point.buckets), strict=True)], point.sum)
        return found


class _Point:
    __slots__ = ("buckets", "sum")

    def __init__(self, buckets: int) -> None:
        self.buckets = [0] * buckets
        self.sum = 0.0


_MOST_BEGUN = 100_000
_MOST_REASONS = 50
OTHER = "other"


class Counters:
    """Counts since the process began; `durations` are histograms by the names of their metrics."""

    def __init__(self, services: Sequence[Service]) -> None:
        histograms = [metric for metric in METRICS.values() if metric.kind == "histogram"]
        self.durations = {metric.name: DurationBuckets(metric) for metric in histograms}
        self.said = Counter[Labels]()
        self.inputs = Counter[Labels]()
        self.transactions = Counter[Labels]()
        self.deadlines = Counter[Labels]()
        self.failures = Counter[Labels]()
        self.effects_parked = Counter[Labels]()
        self.answers_awaited = Counter[Labels]()
        self.overdue: dict[tuple[str, str], set[str]] = {}
        for service in services:
            for decider in service.deciders:
                self._begin_at_zero(service.name, decider)
        self._begun: OrderedDict[tuple[str, str], int] = OrderedDict()
        self._reasons = set[str]()
        self._ending = {
            f"{service.emits_as}/{decider.name}"
            for service in services
            for decider in service.deciders
            if ends_sagas(decider)
        }
        """The deciders that emit an event that ends a saga."""

    def _begin_at_zero(self, service: str, decider: Decider[Any]) -> None:
        """Tell 0 of what has not happened, so that the first time is seen as a change."""
        self.failures[service, decider.name] = 0
        for deadline in decider.deadlines:
            self.deadlines[service, decider.name, deadline] = 0
        for effect in decider.effects.values():
            self.effects_parked[service, name_of(effect.ask.call)] = 0
            for outcome in OUTCOMES if effect.awaits else ():
                self.answers_awaited[service, name_of(effect.ask.call), outcome] = 0
        if ends_sagas(decider):
            self.overdue[service, decider.name] = set()

    def committed(self, service: Service, transaction: Transaction, append_s: float | None) -> None:
        """Count a transaction; `append_s` is how long the log took, where it led one."""
        name, passed = service.name, transaction.passed
        self.transactions[name,] += 1
        self.inputs[name,] += passed.records + passed.more
        if append_s is not None:
            self.durations["eventlib.commit.duration"].add(append_s, (name,))
        said = self.said
        for record, event in zip(transaction.events, transaction.emitted, strict=True):
            if event is None:
                continue  # a copy
            said[name, record.type or ""] += 1
            if record.source in self._ending:
                self._follow(name, record.source, record.subject or "", record.timestamp_ms, event)

    def _follow(self, service: str, source: str, key: str, at_ms: int, event: Event) -> None:
        """Note when a saga began, by its first event, and how it ended."""
        if not contract_of(type(event)).final:
            if self._begun.setdefault((source, key), at_ms) == at_ms and len(self._begun) > _MOST_BEGUN:
                self._begun.popitem(last=False)
            return
        decider = source.partition("/")[2]
        self.overdue.get((service, decider), set()).discard(key)
        began_ms = self._begun.pop((source, key), None)
        if began_ms is None:
            return  # it began before this process did
        labels = service, type(event).__name__, self._reason(event)
        self.durations["eventlib.saga.duration"].add((at_ms - began_ms) / 1000, labels)

    def _reason(self, event: Event) -> str:
        """Return why a saga ended so: a few words that recur; after too many of them, no more are distinguished."""
        reason = "" if "reason" in personal_fields(type(event)) else str(getattr(event, "reason", ""))
        if reason not in self._reasons and len(self._reasons) >= _MOST_REASONS:
            return OTHER
        self._reasons.add(reason)
        return reason

    def handled(self, service: str, steps: Sequence[ProcessingSpan]) -> None:
        """Count what concerns single inputs: deadlines, and what was parked."""
        for step in steps:
            if step.deadline:
                self.deadlines[service, step.decider, step.deadline] += 1
                self.overdue.setdefault((service, step.decider), set()).add(step.key)
            elif step.failure:
                self.failures[service, step.decider] += 1

    def timed(self, service: str, step: ProcessingSpan) -> None:
        """Take in how long a handler took."""
        if step.record is not None and not step.failure:
            seconds = (step.ended_ns - step.began_ns) / 1e9
            self.durations["eventlib.handler.duration"].add(seconds, (service, step.decider))

    def attempted(self, service: str, effect: str, outcome: str, seconds: float) -> None:
        """Count an attempt of an effect."""
        self.durations["eventlib.effect.attempt.duration"].add(seconds, (service, effect, outcome))

    def waited(self, service: str, effect: str, seconds: float) -> None:
        """Count a wait for a turn at a limit."""
        self.durations["eventlib.effect.wait.duration"].add(seconds, (service, effect))

    def awaited(self, service: str, answer: AwaitedAnswer, at_ns: int) -> None:
        """Count what became of an awaited answer, and how long after its request one came."""
        self.answers_awaited[service, answer.effect, answer.outcome] += 1
        if answer.outcome == CAME and answer.request is not None:
            seconds = max(0.0, at_ns / 1e9 - answer.request.timestamp_ms / 1e3)
            self.durations["eventlib.awaited.duration"].add(seconds, (service, answer.effect))

    def stalled(self, service: str, effect: str) -> None:
        """Count an effect that was parked."""
        self.effects_parked[service, effect] += 1


def ends_sagas(decider: Decider[Any]) -> bool:
    """Tell whether a decider emits events that end a saga."""
    return any(contract_of(event).final for event in decider.emits)
