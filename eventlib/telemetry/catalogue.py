"""Every metric that a process has, declared once: instruments, dashboards, alerts and their documentation come from here."""

from dataclasses import dataclass
from typing import Literal

Kind = Literal["counter", "gauge", "histogram"]
Meter = Literal["runtime", "views", "outbox", "sink", "webhook", "audit"]

_SUFFIXES = {"s": "_seconds", "By": "_bytes"}
SECONDS = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
LONG_SECONDS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 1800.0, 7200.0, 86400.0)


@dataclass(frozen=True)
class Metric:
    """One metric: its name, kind and unit (UCUM) as OpenTelemetry has them, and its labels.

    `measured_by` is who has it: a process that runs services, one that runs live views, or `python -m analytics audit
    --metrics FILE`.
    """

    name: str
    kind: Kind
    unit: str
    description: str
    labels: tuple[str, ...] = ()
    bounds: tuple[float, ...] = ()
    measured_by: Meter = "runtime"

    @property
    def prometheus(self) -> str:
        """Its name for Prometheus, by OpenTelemetry's rules."""
        unit = _SUFFIXES.get(self.unit, "")
        return self.name.replace(".", "_") + unit + ("_total" if self.kind == "counter" else "")


def _beside(of: Meter, name: str, kind: Kind, unit: str, description: str, *labels: str) -> Metric:
    """Return a metric of an outbox, a sink or a subscriber to webhooks."""
    return Metric(f"eventlib.{of}.{name}", kind, unit, description, (of, *labels), measured_by=of)


_BESIDE = (
    _beside("outbox", "relayed", "counter", "{event}", "Events that this relay has brought to the log."),
    _beside("outbox", "waiting", "gauge", "{event}", "Events in the outbox."),
    _beside("outbox", "held", "gauge", "{event}", "Of these, those that cannot be events, without what waits behind."),
    _beside("outbox", "oldest", "gauge", "s", "Since the oldest of them was put."),
    _beside("sink", "applied", "counter", "{event}", "Events that this process of a sink has applied."),
    _beside("sink", "parked", "gauge", "{event}", "Events of a sink that are parked, with what waits behind."),
    _beside("sink", "lag", "gauge", "{record}", "Records that a sink has not applied yet.", "topic", "partition"),
    _beside(
        "webhook", "attempts", "counter", "{attempt}", "Attempts of this process: `delivered` or `failed`.", "outcome"
    ),
    _beside("webhook", "lag", "gauge", "{record}", "Records that were not looked at for a subscriber yet."),
    _beside("webhook", "failed", "gauge", "{event}", "Deliveries that wait for an operator."),
    _beside("webhook", "waiting", "gauge", "{event}", "Deliveries that are retried, with what waits behind."),
    _beside("webhook", "disabled", "gauge", "1", "1 while nothing is sent to it: its endpoint answered 410 Gone."),
)
_SERVICE = ("service",)
_TOPIC = ("service", "topic")

METRICS: dict[str, Metric] = {
    metric.name: metric
    for metric in (
        Metric(
            "eventlib.events.said", "counter", "{event}", "Events emitted and committed here.", ("service", "event")
        ),
        Metric("eventlib.inputs.handled", "counter", "{record}", "Records that tasks have gone past here.", _SERVICE),
        Metric(
            "eventlib.inputs.failed",
            "counter",
            "{record}",
            "Inputs parked because a handler raised.",
            ("service", "decider"),
        ),
        Metric("eventlib.transactions", "counter", "{transaction}", "Transactions committed here.", _SERVICE),
        Metric(
            "eventlib.commit.duration",
            "histogram",
            "s",
            "How long the log took to append a transaction.",
            _SERVICE,
            SECONDS,
        ),
        Metric(
            "eventlib.handler.duration",
            "histogram",
            "s",
            "How long a handler took for one input, with evolve and encoding; of sagas that are traced.",
            ("service", "decider"),
            SECONDS,
        ),
        Metric(
            "eventlib.lag",
            "gauge",
            "{record}",
            "Records that a task has not handled yet.",
            ("service", "topic", "partition"),
        ),
        Metric("eventlib.tasks", "gauge", "{task}", "Tasks (partitions) that run here.", _SERVICE),
        Metric(
            "eventlib.saga.duration",
            "histogram",
            "s",
            "From the first event of a saga to the one that ended it, by how and why it ended; of those begun here.",
            ("service", "event", "reason"),
            LONG_SECONDS,
        ),
        Metric(
            "eventlib.sagas.in_flight",
            "gauge",
            "{saga}",
            "Sagas whose deadline is still ahead of them.",
            ("service", "decider"),
        ),
        Metric(
            "eventlib.sagas.overdue",
            "gauge",
            "{saga}",
            "Sagas that have not ended though their deadline has passed, since this process began.",
            ("service", "decider"),
        ),
        Metric(
            "eventlib.deadlines.passed",
            "counter",
            "{deadline}",
            "Deadlines that passed here.",
            ("service", "decider", "deadline"),
        ),
        Metric(
            "eventlib.effect.attempt.duration",
            "histogram",
            "s",
            "Attempts of effects: answered, failed (tried again), refused (for good) or cancelled.",
            ("service", "effect", "outcome"),
            SECONDS,
        ),
        Metric(
            "eventlib.effect.wait.duration",
            "histogram",
            "s",
            "Waits of attempts for their turn at a limit.",
            ("service", "effect"),
            SECONDS,
        ),
        Metric(
            "eventlib.effects.pending",
            "gauge",
            "{effect}",
            "Effects that run, or wait for their next attempt or for their turn at a limit.",
            _SERVICE,
        ),
        Metric(
            "eventlib.limit.waiting", "gauge", "{effect}", "Effects that wait at a limit here.", ("service", "limit")
        ),
        Metric(
            "eventlib.limit.turns", "counter", "{turn}", "Attempts that a limit let out here.", ("service", "limit")
        ),
        Metric(
            "eventlib.effects.parked", "counter", "{effect}", "Effects that were parked here.", ("service", "effect")
        ),
        Metric(
            "eventlib.breaker.state",
            "gauge",
            "",
            "Calls to a port: 0 go through, 1 one of them tries, 2 wait.",
            ("port",),
        ),
        Metric("eventlib.keys.parked", "gauge", "{key}", "Keys that wait for a person.", _SERVICE),
        Metric(
            "eventlib.paused",
            "gauge",
            "{pause}",
            "What operators have paused, for each task here that holds it back.",
            ("service", "kind"),
        ),
        Metric(
            "eventlib.restore.remaining",
            "gauge",
            "{record}",
            "Changelog records that tasks being restored have still to read.",
            _SERVICE,
        ),
        Metric("eventlib.store.size", "gauge", "By", "Size of the local state stores."),
        Metric("eventlib.log.size", "gauge", "By", "Size of the log's file, where it is one."),
        Metric(
            "eventlib.laws.broken",
            "gauge",
            "{finding}",
            "Findings of the last audit, by the invariant or rule.",
            ("law",),
            measured_by="audit",
        ),
        Metric(
            "eventlib.live.records.read",
            "counter",
            "{record}",
            "Records that live views have read here.",
            _TOPIC,
            measured_by="views",
        ),
        Metric(
            "eventlib.live.records.failed",
            "counter",
            "{record}",
            "Of these, events that could not be read, and were passed over.",
            _TOPIC,
            measured_by="views",
        ),
        Metric(
            "eventlib.live.lag",
            "gauge",
            "{record}",
            "Records that live views have not finished yet.",
            ("service", "topic", "partition"),
            measured_by="views",
        ),
        Metric(
            "eventlib.live.event.age",
            "gauge",
            "s",
            "Since the newest record that live views have read here was written.",
            _TOPIC,
            measured_by="views",
        ),
        Metric(
            "eventlib.live.table.size",
            "gauge",
            "By",
            "Size of a live table on this disk.",
            ("service", "table"),
            measured_by="views",
        ),
        *_BESIDE,
        Metric("eventlib.spans.exported", "counter", "{span}", "Spans handed to the exporter."),
        Metric(
            "eventlib.spans.dropped",
            "counter",
            "{span}",
            "Spans that the exporter did not take, or for which there was no room.",
        ),
    )
}


def reference() -> str:
    """Return what every metric means, as Markdown."""
    lines = [
        "# Metrics",
        "",
        "`eventlib run --metrics-port PORT` serves them; `eventlib live --metrics-port PORT` those of live views",
        "(`eventlib_live_…`), and `eventlib outbox relay`, `eventlib sink run` and `eventlib webhook run` with the same option theirs; those of the audit are written by `python -m analytics audit --metrics FILE`, for the",
        "textfile collector of Prometheus's node exporter.",
        "",
        "| for Prometheus | kind | labels | means |",
        "|---|---|---|---|",
    ]
    for metric in METRICS.values():
        labels = ", ".join(metric.labels)
        lines.append(f"| `{metric.prometheus}` | {metric.kind} | {labels} | {metric.description} |")
    return "\n".join(lines) + "\n"
