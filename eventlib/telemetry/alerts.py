"""Prometheus's alert rules: what an operator is called for, and what to do then, from the catalogue's metrics."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from eventlib.model.choreography import Choreography
from eventlib.telemetry.catalogue import METRICS


def total(name: str, by: Sequence[str] = (), match: str = "") -> str:
    """Return a gauge's sum over all processes."""
    return f"sum{_by(by)}({METRICS[name].prometheus}{_matching(match)})"


def worst(name: str, by: Sequence[str] = ()) -> str:
    """Return a gauge's largest value of all processes."""
    return f"max{_by(by)}({METRICS[name].prometheus})"


def rate(name: str, by: Sequence[str] = (), *, over: str) -> str:
    """Return how many a second, of a counter or of what a histogram counts."""
    return f"sum{_by(by)}(rate({counted(name)}[{over}]))"


def increase(name: str, by: Sequence[str], over: str, match: str = "") -> str:
    """Return how many in a time, of a counter or of what a histogram counts."""
    return f"sum{_by(by)}(increase({counted(name)}{_matching(match)}[{over}]))"


def quantile(name: str, share: float, by: Sequence[str] = (), *, over: str) -> str:
    """Return what `share` (0 to 1) of a histogram's values did not exceed."""
    buckets = f"{METRICS[name].prometheus}_bucket"
    return f"histogram_quantile({share:g}, sum{_by(['le', *by])}(rate({buckets}[{over}])))"


def counted(name: str) -> str:
    """Return the name of what counts."""
    metric = METRICS[name]
    return f"{metric.prometheus}_count" if metric.kind == "histogram" else metric.prometheus


def _by(labels: Sequence[str]) -> str:
    return f" by ({', '.join(labels)}) " if labels else ""


def _matching(match: str) -> str:
    return f"{{{match}}}" if match else ""


@dataclass(frozen=True)
class Alert:
    """One rule: it holds when `expression` has had values `lasts` long. `page` calls an operator, a `ticket` can wait."""

    name: str
    expression: str
    lasts: str
    severity: Literal["page", "ticket"]
    summary: str
    remedy: str


_LAG, _SLOW_COMMIT_S = 10_000, 1


def alerts(choreography: Choreography) -> list[Alert]:
    """Return the alerts of an application: those that every one has, and one for each service that has to run."""
    return [*(_missing(service.name, service.partitions) for service in choreography.services), *_COMMON]


def _missing(service: str, partitions: int) -> Alert:
    running = total("eventlib.tasks", match=f'service="{service}"')
    return Alert(
        f"EventlibTasksMissing_{service.replace('-', '_')}",
        f"({running} or vector(0)) < {partitions}",
        "2m",
        "page",
        f"Not all {partitions} tasks of service {service} run: {{{{ $value }}}} do.",
        "Look whether its processes live, and whether Prometheus reaches them; the others take over by themselves.",
    )


_BEHIND = total("eventlib.lag", ["service"])
_FLYING = total("eventlib.sagas.in_flight", ["service"])


def _awaited(outcome: str) -> str:
    """Return how many answers that effects await had an outcome within an hour."""
    return increase("eventlib.awaited.answers", ["service", "effect"], "1h", f'outcome="{outcome}"')


_COMMON = (
    Alert(
        "EventlibLag",
        f"{_BEHIND} > {_LAG}",
        "10m",
        "page",
        "Service {{ $labels.service }} is {{ $value }} records behind.",
        "Look at its dashboard: a slow port or commit, a partition without an owner, or not enough processes.",
    ),
    Alert(
        "EventlibSagasStandStill",
        f"{_FLYING} > 0 unless {rate('eventlib.saga.duration', ['service'], over='15m')} > 0",
        "15m",
        "page",
        "{{ $value }} sagas of {{ $labels.service }} are in flight, and none has ended for 15 minutes.",
        "Look at lag, circuit breakers and parked keys; `eventlib saga KEY` shows where one of them stands.",
    ),
    Alert(
        "EventlibSagasOverdue",
        f"{total('eventlib.sagas.overdue', ['service', 'decider'])} > 0",
        "10m",
        "ticket",
        "{{ $value }} sagas of {{ $labels.decider }} have passed their deadline and not ended.",
        "Compensations do not give up: look which port does not answer.",
    ),
    Alert(
        "EventlibCircuitOpen",
        f"{worst('eventlib.breaker.state', ['port'])} == 2",
        "5m",
        "page",
        "Port {{ $labels.port }} does not answer: calls wait.",
        "Requests wait and use up no attempts; they go on when it is back.",
    ),
    Alert(
        "EventlibKeysParked",
        f"{total('eventlib.keys.parked', ['service'])} > 0",
        "5m",
        "ticket",
        "{{ $value }} keys of {{ $labels.service }} are parked.",
        "`eventlib parked list` says why; deploy a fix, then `eventlib parked retry`.",
    ),
    Alert(
        "EventlibNewCause",
        f"{increase('eventlib.causes.parked', ['service'], '15m')} > 0",
        "0m",
        "ticket",
        "{{ $labels.service }} parks for a new cause.",
        "A warning in its log has the traceback; `eventlib parked list` shows what is parked by cause.",
    ),
    Alert(
        "EventlibInputsLost",
        f"{total('eventlib.inputs.lost', ['service', 'topic'])} > 0",
        "1m",
        "page",
        "Records of {{ $labels.topic }} were gone before {{ $labels.service }} had read them.",
        "`eventlib status` says which; `eventlib reset SERVICE --accept-loss --reason WHY` ends this.",
    ),
    Alert(
        "EventlibTopicFaulty",
        f"{worst('eventlib.topics.faulty', ['topic'])} > 0",
        "1m",
        "page",
        "Topic {{ $labels.topic }} has other partitions than declared, or is gone.",
        "`eventlib status` and `eventlib doctor` say what to do; events in other partitions are read by no task.",
    ),
    Alert(
        "EventlibPaused",
        f"{total('eventlib.paused', ['service', 'kind'])} > 0",
        "1440m",
        "ticket",
        "A {{ $labels.kind }} of {{ $labels.service }} is paused since yesterday.",
        "`eventlib status` says by whom and why; `eventlib resume` lets it go on.",
    ),
    Alert(
        "EventlibInputsFail",
        f"{increase('eventlib.inputs.failed', ['service', 'decider'], '5m')} > 10",
        "0m",
        "page",
        "Decider {{ $labels.decider }} of {{ $labels.service }} parks one key after the other.",
        "A handler fails for many keys: was it deployed just now? `eventlib parked list` has its error.",
    ),
    Alert(
        "EventlibEffectsParked",
        f"{increase('eventlib.effects.parked', ['service', 'effect'], '15m')} > 0",
        "0m",
        "ticket",
        "Effect {{ $labels.effect }} was refused for good.",
        "`eventlib parked list` says why.",
    ),
    Alert(
        "EventlibAwaitedNeverComes",
        f"{_awaited('never')} > 0 unless {_awaited('came')} > 0",
        "0m",
        "page",
        "{{ $value }} answers that effect {{ $labels.effect }} awaits did not come within an hour, and none came.",
        "Does the external system reach the API? `callbacks_unsigned` counts what a wrong secret refuses.",
    ),
    Alert(
        "EventlibCommitSlow",
        f"{quantile('eventlib.commit.duration', 0.99, ['service'], over='5m')} > {_SLOW_COMMIT_S}",
        "10m",
        "ticket",
        "Commits of {{ $labels.service }} take {{ $value }} s (p99).",
        "Look at the log's disk or brokers: `eventlib doctor`.",
    ),
    Alert(
        "EventlibRestoreSlow",
        f"{total('eventlib.restore.remaining', ['service'])} > 0",
        "15m",
        "ticket",
        "Tasks of {{ $labels.service }} are still being restored, {{ $value }} records to go.",
        "EVENTLIB_STANDBYS=1 keeps copies, so that a takeover reads next to nothing.",
    ),
    Alert(
        "EventlibLawBroken",
        f"{worst('eventlib.laws.broken', ['law'])} > 0",
        "0m",
        "page",
        "The last audit found that {{ $labels.law }} does not hold.",
        "`python -m analytics audit` names the keys and the events.",
    ),
    Alert(
        "EventlibViewsBehind",
        f"{total('eventlib.live.lag', ['service'])} > {_LAG}",
        "10m",
        "ticket",
        "The live views of {{ $labels.service }} are {{ $value }} records behind.",
        "What they show is old, and nothing else: look whether their workers live; more of them share the partitions.",
    ),
    Alert(
        "EventlibViewsCannotRead",
        f"{increase('eventlib.live.records.failed', ['service', 'topic'], '15m')} > 0",
        "0m",
        "ticket",
        "The live views of {{ $labels.service }} have passed over events of {{ $labels.topic }} that they could not read.",
        "The log of their worker says why; after a fix, `eventlib live reset` computes them again.",
    ),
    Alert(
        "EventlibViewsLost",
        f"{increase('eventlib.live.records.lost', ['service', 'topic'], '15m')} > 0",
        "0m",
        "ticket",
        "{{ $value }} records of {{ $labels.topic }} were gone before the live views of {{ $labels.service }} have read them.",
        "The log of their worker and `GET /views` name the offsets; `eventlib live reset` computes the views again from what is there.",
    ),
    Alert(
        "EventlibOutboxBehind",
        f"{worst('eventlib.outbox.oldest', ['outbox'])} > 300",
        "5m",
        "page",
        "Events have stood in the outbox {{ $labels.outbox }} for {{ $value }} s.",
        "`eventlib outbox status` says what waits and what is held; the log of its relay, what it waits for.",
    ),
    Alert(
        "EventlibSinkBehind",
        f"sum by (sink) ({worst('eventlib.sink.lag', ['sink', 'topic', 'partition'])}) > {_LAG}",
        "10m",
        "ticket",
        "The sink {{ $labels.sink }} is {{ $value }} records behind.",
        "Its log says what it waits for; more processes share the partitions.",
    ),
    Alert(
        "EventlibSinkParks",
        f"{worst('eventlib.sink.parked', ['sink'])} > 0",
        "5m",
        "ticket",
        "The sink {{ $labels.sink }} has {{ $value }} events parked.",
        "`eventlib sink status` says why; mend the handlers, then `eventlib sink retry`.",
    ),
    Alert(
        "EventlibWebhookBehind",
        f"{worst('eventlib.webhook.lag', ['webhook'])} > {_LAG}",
        "10m",
        "ticket",
        "The subscriber {{ $labels.webhook }} is {{ $value }} records behind.",
        "`eventlib webhook status` says what it answers; no more is read for one that has too much waiting.",
    ),
    Alert(
        "EventlibWebhookParks",
        f"{worst('eventlib.webhook.failed', ['webhook'])} > 0",
        "5m",
        "ticket",
        "{{ $value }} deliveries to the subscriber {{ $labels.webhook }} are parked.",
        "`eventlib webhook status` says why; when its endpoint is mended, `eventlib webhook retry`.",
    ),
    Alert(
        "EventlibWebhookDisabled",
        f"{worst('eventlib.webhook.disabled', ['webhook'])} > 0",
        "5m",
        "ticket",
        "The subscriber {{ $labels.webhook }} is disabled: its endpoint answered 410 Gone.",
        "Ask its owner; take it out of the file, or `eventlib webhook enable` it.",
    ),
    Alert(
        "EventlibSpansDropped",
        f"{rate('eventlib.spans.dropped', over='15m')} > 0",
        "15m",
        "ticket",
        "Spans are dropped: the collector does not take them, or there are too many.",
        "Look at the collector, or lower OTEL_TRACES_SAMPLER_ARG.",
    ),
)


def rule_groups(choreography: Choreography) -> list[dict[str, Any]]:
    """Return the groups of rules as Prometheus and its operator read them."""
    rules = [
        {
            "alert": each.name,
            "expr": each.expression,
            "for": each.lasts,
            "labels": {"severity": each.severity},
            "annotations": {"summary": each.summary, "description": each.remedy},
        }
        for each in alerts(choreography)
    ]
    return [{"name": f"eventlib-{choreography.name}", "rules": rules}]
