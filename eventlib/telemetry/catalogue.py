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


def _counter(name: str, labels: str, unit: str, description: str, of: Meter = "runtime") -> Metric:
    return Metric(name, "counter", unit, description, tuple(labels.split()), measured_by=of)


def _gauge(name: str, labels: str, unit: str, description: str, of: Meter = "runtime") -> Metric:
    return Metric(name, "gauge", unit, description, tuple(labels.split()), measured_by=of)


def _histogram(name: str, labels: str, bounds: tuple[float, ...], description: str) -> Metric:
    return Metric(name, "histogram", "s", description, tuple(labels.split()), bounds)


METRICS: dict[str, Metric] = {
    metric.name: metric
    for metric in (
        _counter("eventlib.events.said", "service event", "{event}", "Events emitted and committed here."),
        _counter("eventlib.inputs.handled", "service", "{record}", "Records that tasks have gone past here."),
        _counter("eventlib.inputs.failed", "service decider", "{record}", "Inputs parked because a handler raised."),
        _counter("eventlib.transactions", "service", "{transaction}", "Transactions committed here."),
        _histogram("eventlib.commit.duration", "service", SECONDS, "How long the log took to append a transaction."),
        _histogram(
            "eventlib.handler.duration",
            "service decider",
            SECONDS,
            "How long a handler took for one input, with evolve and encoding; of sagas that are traced.",
        ),
        _gauge("eventlib.lag", "service topic partition", "{record}", "Records that a task has not handled yet."),
        _gauge("eventlib.tasks", "service", "{task}", "Tasks (partitions) that run here."),
        _histogram(
            "eventlib.saga.duration",
            "service event reason",
            LONG_SECONDS,
            "From the first event of a saga to the one that ended it, by how and why it ended; of those begun here.",
        ),
        _gauge("eventlib.sagas.in_flight", "service decider", "{saga}", "Sagas whose deadline is still ahead of them."),
        _gauge(
            "eventlib.sagas.overdue",
            "service decider",
            "{saga}",
            "Sagas that have not ended though their deadline has passed, since this process began.",
        ),
        _counter("eventlib.deadlines.passed", "service decider deadline", "{deadline}", "Deadlines that passed here."),
        _histogram(
            "eventlib.effect.attempt.duration",
            "service effect outcome",
            SECONDS,
            "Attempts of effects: answered, failed (tried again), refused (for good) or cancelled.",
        ),
        _histogram(
            "eventlib.effect.wait.duration", "service effect", SECONDS, "Waits of attempts for their turn at a limit."
        ),
        _gauge(
            "eventlib.effects.pending",
            "service",
            "{effect}",
            "Effects that run, or wait for their next attempt or for their turn at a limit.",
        ),
        _gauge("eventlib.limit.waiting", "service limit", "{effect}", "Effects that wait at a limit here."),
        _counter("eventlib.limit.turns", "service limit", "{turn}", "Attempts that a limit let out here."),
        _counter("eventlib.effects.parked", "service effect", "{effect}", "Effects that were parked here."),
        _counter(
            "eventlib.awaited.answers",
            "service effect outcome",
            "{answer}",
            "What effects await: it came, came late (after its deadline), came twice (or changed nothing), or never came in time.",
        ),
        _histogram(
            "eventlib.awaited.duration",
            "service effect",
            LONG_SECONDS,
            "From an effect's request to the answer that it awaits; of requests made here.",
        ),
        _gauge("eventlib.breaker.state", "port", "", "Calls to a port: 0 go through, 1 one of them tries, 2 wait."),
        _counter(
            "eventlib.causes.parked",
            "service",
            "{cause}",
            "Causes that something was parked for, each once in a process.",
        ),
        _gauge("eventlib.keys.parked", "service", "{key}", "Keys that wait for a person."),
        _gauge(
            "eventlib.inputs.lost",
            "service topic",
            "{partition}",
            "Partitions whose records were gone before a task here had read them, until an operator accepts that.",
        ),
        _gauge(
            "eventlib.topics.faulty",
            "topic",
            "",
            "1 while an input has other partitions than declared, or is not on the log any more.",
        ),
        _gauge(
            "eventlib.paused",
            "service kind",
            "{pause}",
            "What operators have paused, for each task here that holds it back.",
        ),
        _gauge(
            "eventlib.restore.remaining",
            "service",
            "{record}",
            "Changelog records that tasks being restored have still to read.",
        ),
        _gauge("eventlib.store.size", "", "By", "Size of the local state stores."),
        _gauge("eventlib.log.size", "", "By", "Size of the log's file, where it is one."),
        _gauge(
            "eventlib.laws.broken",
            "law",
            "{finding}",
            "Findings of the last audit, by the invariant or rule.",
            of="audit",
        ),
        _counter(
            "eventlib.live.records.read",
            "service topic",
            "{record}",
            "Records that live views have read here.",
            of="views",
        ),
        _counter(
            "eventlib.live.records.failed",
            "service topic",
            "{record}",
            "Of these, events that could not be read, and were passed over.",
            of="views",
        ),
        _counter(
            "eventlib.live.records.lost",
            "service topic",
            "{record}",
            "Records that were gone before live views have read them: dropped by retention, or with a topic that was created again.",
            of="views",
        ),
        _gauge(
            "eventlib.live.lag",
            "service topic partition",
            "{record}",
            "Records that live views have not finished yet.",
            of="views",
        ),
        _gauge(
            "eventlib.live.event.age",
            "service topic",
            "s",
            "Since the newest record that live views have read here was written.",
            of="views",
        ),
        _gauge("eventlib.live.table.size", "service table", "By", "Size of a live table on this disk.", of="views"),
        _counter(
            "eventlib.outbox.relayed",
            "outbox",
            "{event}",
            "Events that this relay has brought to the log.",
            of="outbox",
        ),
        _gauge("eventlib.outbox.waiting", "outbox", "{event}", "Events in the outbox.", of="outbox"),
        _gauge(
            "eventlib.outbox.held",
            "outbox",
            "{event}",
            "Of these, those that cannot be events, without what waits behind.",
            of="outbox",
        ),
        _gauge("eventlib.outbox.oldest", "outbox", "s", "Since the oldest of them was put.", of="outbox"),
        _counter(
            "eventlib.sink.applied", "sink", "{event}", "Events that this process of a sink has applied.", of="sink"
        ),
        _gauge(
            "eventlib.sink.parked",
            "sink",
            "{event}",
            "Events of a sink that are parked, with what waits behind.",
            of="sink",
        ),
        _gauge(
            "eventlib.sink.lag",
            "sink topic partition",
            "{record}",
            "Records that a sink has not applied yet.",
            of="sink",
        ),
        _gauge(
            "eventlib.sink.lost",
            "sink topic partition",
            "{record}",
            "Offsets that retention has dropped before a sink applied them: it stands still.",
            of="sink",
        ),
        _counter(
            "eventlib.webhook.attempts",
            "webhook outcome",
            "{attempt}",
            "Attempts of this process: `delivered` or `failed`.",
            of="webhook",
        ),
        _gauge(
            "eventlib.webhook.lag",
            "webhook",
            "{record}",
            "Records that were not looked at for a subscriber yet.",
            of="webhook",
        ),
        _gauge(
            "eventlib.webhook.lost",
            "webhook",
            "{partition}",
            "Partitions of which retention has dropped what was not delivered: nothing is sent until an operator decides.",
            of="webhook",
        ),
        _gauge("eventlib.webhook.failed", "webhook", "{event}", "Deliveries that wait for an operator.", of="webhook"),
        _gauge(
            "eventlib.webhook.waiting",
            "webhook",
            "{event}",
            "Deliveries that are retried, with what waits behind.",
            of="webhook",
        ),
        _gauge(
            "eventlib.webhook.disabled",
            "webhook",
            "1",
            "1 while nothing is sent to it: its endpoint answered 410 Gone.",
            of="webhook",
        ),
        _counter("eventlib.spans.exported", "", "{span}", "Spans handed to the exporter."),
        _counter(
            "eventlib.spans.dropped",
            "",
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
