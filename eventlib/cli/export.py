"""`eventlib export`: contracts, dashboards, alerts and manifests as files for other tools."""

from collections.abc import Callable
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Literal

import typer

from eventlib.cli._common import output
from eventlib.cli._common.options import AppOption, JsonOption, LogOptions
from eventlib.cli._common.views import declared_views
from eventlib.config.effective import reference as settings_reference
from eventlib.contracts.exporting import exported
from eventlib.errors import WiringError
from eventlib.manifests.exporters import for_kubernetes, for_prometheus, for_strimzi, for_tools
from eventlib.model.choreography import Choreography
from eventlib.project import load_choreography
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
]


def export(
    context: typer.Context,
    form: Annotated[
        Form,
        typer.Argument(
            metavar="FORM",
            help="asyncapi, avsc, jsonschema, proto, spark, dashboards, alerts, metrics, settings, strimzi, "
            "kubernetes or kafka.",
        ),
    ],
    name: Annotated[
        list[str] | None, typer.Argument(metavar="[NAME]...", help="Only these events.", show_default=False)
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", metavar="DIR", file_okay=False, help="Write files there, instead of to stdout."),
    ] = None,
    as_json: JsonOption = False,
    app: AppOption = None,
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
    network access.

    [dim]Examples:[/dim]
      eventlib export asyncapi > shop.json
      eventlib export avsc --out contracts/
      eventlib export spark OrderPlaced
      eventlib export alerts --out deploy/prometheus
      eventlib export strimzi --out deploy/kubernetes/kafka
      eventlib export kubernetes --out deploy/kubernetes/services
    """
    print_export(LogOptions.of(context, app, None), form, name or [], out, as_json=as_json)


def print_export(log_options: LogOptions, form: str, names: list[str], out: Path | None, *, as_json: bool) -> None:
    """Print a form's files, or write them into a directory."""
    files = _files(load_choreography(log_options.app), form)
    if names:
        chosen = {file: text for file, text in files.items() if file.partition(".")[0] in names}
        if missing := set(names) - {file.partition(".")[0] for file in chosen}:
            raise WiringError(f"there is no {', '.join(sorted(missing))} to export as {form}")
        files = chosen
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
        for file, text in files.items():
            (out / file).write_text(text, encoding="utf-8")
        output.terminal().print(f"{output.counted(len(files), 'file')} in {out}.")
    elif as_json:
        output.print_json({"file": file, "text": text} for file, text in files.items())
    else:
        output.write_lines(text.rstrip("\n").encode() for text in files.values())


def _files(choreography: Choreography, form: str) -> dict[str, str]:
    makers: dict[str, Callable[[], dict[str, str]]] = {
        "dashboards": _dashboards,
        "alerts": lambda: for_prometheus(choreography),
        "metrics": lambda: {"metrics.md": reference()},
        "settings": lambda: {"settings.md": settings_reference(choreography.settings)},
        "strimzi": lambda: for_strimzi(choreography, declared_views(choreography)),
        "kubernetes": lambda: for_kubernetes(choreography, declared_views(choreography)),
        "kafka": lambda: for_tools(choreography, declared_views(choreography)),
    }
    return makers[form]() if form in makers else exported(choreography, form)


def _dashboards() -> dict[str, str]:
    kept = files("eventlib.telemetry") / "grafana"
    return {file.name: file.read_text(encoding="utf-8") for file in sorted(kept.iterdir(), key=lambda each: each.name)}
