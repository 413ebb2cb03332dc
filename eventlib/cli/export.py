"""`eventlib export`: contracts, dashboards, alerts and manifests as files for other tools."""

from collections.abc import Callable, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Literal

from eventlib.cli._common import output
from eventlib.cli._common.connectors import FileOption, OutboxesOption, SinksOption, programs_of
from eventlib.cli._common.options import AppOnly, JsonOption, argument, option
from eventlib.cli._common.views import declared_views
from eventlib.config.effective import reference as settings_reference
from eventlib.contracts.exporting import exported
from eventlib.errors import WiringError
from eventlib.manifests.connectors import ConnectorProgram
from eventlib.manifests.exporters import for_compose, for_kubernetes, for_prometheus, for_strimzi, for_tools
from eventlib.model.choreography import Choreography
from eventlib.model.project import load_choreography
from eventlib.telemetry.catalogue import reference

Form = Literal[
    "asyncapi",
    "avsc",
    "jsonschema",
    "proto",
    "spark",
    "dashboards",
    "alerts",
    "metrics",
    "settings",
    "strimzi",
    "kubernetes",
    "kafka",
    "compose",
]


def export(  # noqa: PLR0913, PLR0917  one argument for each option
    log_options: AppOnly,
    form: Annotated[
        Form,
        argument(
            "FORM",
            "asyncapi, avsc, jsonschema, proto, spark, dashboards, alerts, metrics, settings, strimzi, "
            "kubernetes, kafka or compose.",
        ),
    ],
    name: Annotated[list[str] | None, argument("[NAME]...", "Only these events.")] = None,
    out: Annotated[
        Path | None, option("--out -o", "DIR", "Write files there, instead of to stdout.", file_okay=False)
    ] = None,
    as_json: JsonOption = False,
    sinks: SinksOption = None,
    outboxes: OutboxesOption = None,
    subscribers: FileOption = None,
) -> None:
    """Export contracts, dashboards, alerts and manifests for other tools.

    asyncapi is one document (3.0, with Kafka's bindings); avsc (Avro),
    jsonschema (draft 7), proto (proto3) and spark (DDL) are one file per event,
    made from the classes. dashboards (Grafana), alerts (Prometheus) and metrics
    (what each means, as Markdown) are made from the list of metrics and the
    services, settings from the code that reads them.
    strimzi (resources for Kubernetes) and kafka (scripts) are what a cluster
    needs: topics, and one user per service with exactly the ACLs that it needs.
    kubernetes runs each service there, scales it on its lag, and limits its
    network access. Outboxes' relays, sinks and webhooks are among all three,
    when they are named. compose runs these beside an application's own Compose
    file.

    [dim]Examples:[/dim]
      eventlib export asyncapi > shop.json
      eventlib export avsc --out contracts/
      eventlib export spark OrderPlaced
      eventlib export alerts --out deploy/prometheus
      eventlib export strimzi --out deploy/kubernetes/kafka
      eventlib export kubernetes --out deploy/kubernetes/services
      eventlib export compose --subscribers webhooks.toml --out deploy/compose
    """
    choreography = load_choreography(log_options.app)
    for_connectors = form in {"strimzi", "kubernetes", "kafka", "compose"}
    connectors = programs_of(choreography, sinks, outboxes, subscribers) if for_connectors else []
    files = _files(choreography, form, connectors)
    names = name or []
    if names:
        chosen = {file: text for file, text in files.items() if file.partition(".")[0] in names}
        if missing := set(names) - {file.partition(".")[0] for file in chosen}:
            raise WiringError(f"there is no {', '.join(sorted(missing))} to export as {form}")
        files = chosen
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
        for file, text in files.items():
            (out / file).write_text(text, encoding="utf-8")
        output.say(f"{output.counted(len(files), 'file')} in {out}.")
    elif as_json:
        output.print_json({"file": file, "text": text} for file, text in files.items())
    else:
        output.write_lines(text.rstrip("\n").encode() for text in files.values())


def _files(choreography: Choreography, form: str, connectors: Sequence[ConnectorProgram]) -> dict[str, str]:
    makers: dict[str, Callable[[], dict[str, str]]] = {
        "dashboards": _dashboards,
        "alerts": lambda: for_prometheus(choreography),
        "metrics": lambda: {"metrics.md": reference()},
        "settings": lambda: {"settings.md": settings_reference(choreography.settings)},
        "strimzi": lambda: for_strimzi(choreography, declared_views(choreography), connectors),
        "kubernetes": lambda: for_kubernetes(choreography, declared_views(choreography), connectors),
        "kafka": lambda: for_tools(choreography, declared_views(choreography), connectors),
        "compose": lambda: for_compose(connectors),
    }
    return makers[form]() if form in makers else exported(choreography, form)


def _dashboards() -> dict[str, str]:
    kept = files("eventlib.telemetry") / "grafana"
    return {file.name: file.read_text(encoding="utf-8") for file in sorted(kept.iterdir(), key=lambda each: each.name)}
