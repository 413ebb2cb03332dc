"""Grafana dashboards: what an operator looks at, from the catalogue's metrics."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from eventlib.telemetry.promql import least, quantile, rate, total, worst

_WIDTH, _HEIGHT, _COLUMNS = 12, 8, 2
_SOURCE = {"type": "prometheus", "uid": "${source}"}


@dataclass(frozen=True)
class Panel:
    """One panel: its queries, each with how Grafana names its lines, and the unit as Grafana knows it."""

    title: str
    queries: Sequence[tuple[str, str]]
    unit: str = "short"
    says: str = ""


SERVICES = (
    Panel("Events said a second", [(rate("eventlib.events.said", ["service"]), "{{service}}")], "ops"),
    Panel("Inputs handled a second", [(rate("eventlib.inputs.handled", ["service"]), "{{service}}")], "ops"),
    Panel(
        "Lag",
        [(total("eventlib.lag", ["service"]), "{{service}}")],
        says="Records that were not handled yet. It grows where a service does not keep up, or stands still.",
    ),
    Panel(
        "Lag of the worst partitions",
        [
            (
                f"topk(10, {total('eventlib.lag', ['topic', 'partition', 'service'])})",
                "{{service}} {{topic}}/{{partition}}",
            )
        ],
    ),
    Panel(
        "Commit, p50 and p99",
        [
            (quantile("eventlib.commit.duration", 0.5, ["service"]), "{{service}} p50"),
            (quantile("eventlib.commit.duration", 0.99, ["service"]), "{{service}} p99"),
        ],
        "s",
    ),
    Panel("Handlers, p99", [(quantile("eventlib.handler.duration", 0.99, ["decider"]), "{{decider}}")], "s"),
    Panel("Tasks that run", [(total("eventlib.tasks", ["service"]), "{{service}}")]),
    Panel(
        "Changelog records still to be restored", [(total("eventlib.restore.remaining", ["service"]), "{{service}}")]
    ),
    Panel("Transactions a second", [(rate("eventlib.transactions", ["service"]), "{{service}}")], "ops"),
    Panel(
        "On the disk",
        [(worst("eventlib.log.size"), "log"), (total("eventlib.store.size"), "state stores")],
        "bytes",
    ),
    Panel(
        "Spans a second",
        [(rate("eventlib.spans.exported"), "exported"), (rate("eventlib.spans.dropped"), "dropped")],
        "ops",
    ),
)

SAGAS = (
    Panel("Sagas in flight", [(total("eventlib.sagas.in_flight", ["decider"]), "{{decider}}")]),
    Panel("Sagas overdue", [(total("eventlib.sagas.overdue", ["decider"]), "{{decider}}")]),
    Panel(
        "Ended a second, by how and why",
        [(rate("eventlib.saga.duration", ["event", "reason"]), "{{event}} {{reason}}")],
        "ops",
    ),
    Panel(
        "From begin to end, p50, p95 and p99",
        [
            (quantile("eventlib.saga.duration", share, ["event"]), f"{{{{event}}}} p{share * 100:g}")
            for share in (0.5, 0.95, 0.99)
        ],
        "s",
    ),
    Panel(
        "Attempts of effects a second",
        [(rate("eventlib.effect.attempt.duration", ["effect", "outcome"]), "{{effect}} {{outcome}}")],
        "ops",
    ),
    Panel("Attempts, p99", [(quantile("eventlib.effect.attempt.duration", 0.99, ["effect"]), "{{effect}}")], "s"),
    Panel(
        "Circuit breakers",
        [(worst("eventlib.breaker.state", ["port"]), "{{port}}")],
        says="0: calls go through. 1: one of them tries. 2: all wait.",
    ),
    Panel("Effects pending", [(total("eventlib.effects.pending", ["service"]), "{{service}}")]),
    Panel(
        "Keys parked", [(total("eventlib.keys.parked", ["service"]), "{{service}}")], says="See `eventlib parked list`."
    ),
    Panel(
        "Inputs and effects parked a second",
        [
            (rate("eventlib.inputs.failed", ["decider"]), "{{decider}}"),
            (rate("eventlib.effects.parked", ["effect"]), "{{effect}}"),
        ],
        "ops",
    ),
    Panel("Deadlines passed a second", [(rate("eventlib.deadlines.passed", ["deadline"]), "{{deadline}}")], "ops"),
    Panel(
        "Invariants broken",
        [(worst("eventlib.laws.broken", ["law"]), "{{law}}")],
        says="By the last `python -m analytics audit`.",
    ),
)

VIEWS = (
    Panel("Records read a second", [(rate("eventlib.live.records.read", ["service"]), "{{service}}")], "ops"),
    Panel(
        "Lag",
        [(total("eventlib.live.lag", ["service"]), "{{service}}")],
        says="Records that are not in the tables yet, of partitions that some worker has.",
    ),
    Panel(
        "Lag of the worst partitions",
        [
            (
                f"topk(10, {total('eventlib.live.lag', ['topic', 'partition', 'service'])})",
                "{{service}} {{topic}}/{{partition}}",
            )
        ],
    ),
    Panel(
        "Since the newest record",
        [(least("eventlib.live.event.age", ["service", "topic"]), "{{service}} {{topic}}")],
        "s",
        "It grows where nothing is written, or nothing is read: lag tells which.",
    ),
    Panel(
        "Records that could not be read, a second",
        [(rate("eventlib.live.records.failed", ["service", "topic"]), "{{service}} {{topic}}")],
        "ops",
        "They are passed over; the services park them.",
    ),
    Panel("Tables on the disk", [(total("eventlib.live.table.size", ["table"]), "{{table}}")], "bytes"),
)


def dashboards() -> dict[str, str]:
    """Return every dashboard as JSON for Grafana, by the name of its file."""
    made = {
        "eventlib-services.json": _dashboard("eventlib-services", "eventlib: services", SERVICES),
        "eventlib-sagas.json": _dashboard("eventlib-sagas", "eventlib: sagas", SAGAS),
        "eventlib-views.json": _dashboard("eventlib-views", "eventlib: live views", VIEWS),
    }
    return {name: json.dumps(dashboard, indent=2, ensure_ascii=False) + "\n" for name, dashboard in made.items()}


def _dashboard(uid: str, title: str, panels: Sequence[Panel]) -> dict[str, Any]:
    source = {"name": "source", "type": "datasource", "query": "prometheus", "label": "Prometheus"}
    return {
        "uid": uid,
        "title": title,
        "tags": ["eventlib"],
        "schemaVersion": 39,
        "editable": True,
        "refresh": "10s",
        "time": {"from": "now-1h", "to": "now"},
        "templating": {"list": [source]},
        "panels": [_panel(number, panel) for number, panel in enumerate(panels)],
    }


def _panel(number: int, panel: Panel) -> dict[str, Any]:
    column, row = number % _COLUMNS, number // _COLUMNS
    targets = [
        {"refId": chr(ord("A") + n), "expr": expression, "legendFormat": legend, "datasource": _SOURCE}
        for n, (expression, legend) in enumerate(panel.queries)
    ]
    return {
        "id": number + 1,
        "type": "timeseries",
        "title": panel.title,
        "description": panel.says,
        "datasource": _SOURCE,
        "gridPos": {"x": column * _WIDTH, "y": row * _HEIGHT, "w": _WIDTH, "h": _HEIGHT},
        "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0}, "overrides": []},
        "options": {"legend": {"displayMode": "table", "placement": "right", "calcs": ["lastNotNull", "max"]}},
        "targets": targets,
    }
