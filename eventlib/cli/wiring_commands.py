"""The commands that look at the wiring: their names, their options and their help."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from eventlib.cli.options import AppOption, CountedLogOption, JsonOption, LogOption, LogOptions, Shared

Format = Literal["mermaid", "dot", "svg"]
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
_ENDINGS = {".svg": "svg", ".dot": "dot", ".gv": "dot", ".json": "json"}


def check(
    context: typer.Context,
    strict: Annotated[bool, typer.Option("--strict", metavar="", help="Warnings end with exit code 1, too.")] = False,
    as_json: JsonOption = False,
    app: AppOption = None,
    log: LogOption = None,
) -> None:
    """Look for faults in the wiring: what is forgotten, or never undone.

    From types alone: events that nobody handles, handlers that nobody feeds;
    steps that stay done after a failure (events declare failure=True and
    reverses=OtherEvent); waits without a deadline, rings, effects that give up.

    Exit code 1 for errors, 0 for warnings. What is meant to be so is named in
    Choreography(accepts=[Accepted(RULE, SUBJECT, REASON)]), from
    eventlib.analysis.finding: it is shown with its reason, and counts no more.

    [dim]Examples:[/dim]
      eventlib check
      eventlib check --strict
      eventlib check --json | jq -r 'select(.accepted == null) | .what'
    """
    from eventlib.cli.checking import print_check

    raise typer.Exit(print_check(LogOptions.of(context, app, log), strict=strict, as_json=as_json))


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
        Path | None, typer.Option("--out", "-o", metavar="DIR", file_okay=False, help="Into files, instead of stdout.")
    ] = None,
    as_json: JsonOption = False,
    app: AppOption = None,
) -> None:
    """Write the contracts, or what watches them run, in a form that others work with.

    asyncapi is one document (3.0, with Kafka's bindings); avsc (Avro),
    jsonschema (draft 7), proto (proto3) and spark (DDL) are a file an event.
    All of it follows from the classes. dashboards (Grafana), alerts
    (Prometheus) and metrics (what each means, as Markdown) follow from the
    list of metrics and the services; so does settings, from what reads them.
    strimzi (resources for Kubernetes) and kafka (scripts) are what a cluster
    has to be given: topics, and a user for each service with the rights that
    it needs and no others. kubernetes is what runs each service there, scales
    it on its lag, and says whom it may speak to.

    [dim]Examples:[/dim]
      eventlib export asyncapi > shop.json
      eventlib export avsc --out contracts/
      eventlib export spark OrderPlaced
      eventlib export alerts --out deploy/prometheus
      eventlib export strimzi --out deploy/kubernetes/kafka
      eventlib export kubernetes --out deploy/kubernetes/services
    """
    from eventlib.cli.exporting import print_export

    print_export(LogOptions.of(context, app, None), form, name or [], out, as_json=as_json)


def graph(
    context: typer.Context,
    written_as: Annotated[
        Format | None,
        typer.Option(
            "--format",
            "-f",
            metavar="mermaid|dot|svg",
            help="How it is written. [dim]Default: as FILE ends, or mermaid[/dim]",
            show_default=False,
        ),
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", metavar="FILE", dir_okay=False, help="Where to, instead of stdout.")
    ] = None,
    as_json: JsonOption = False,
    app: AppOption = None,
    log: CountedLogOption = None,
) -> None:
    """Draw the choreography: what may follow from what.

    Steps forward are solid, failures red, and what undoes is dashed. With --log,
    each arrow says how often it was gone and the p95 from cause to event; when
    no URL follows, on the log that all commands look at.

    [dim]Examples:[/dim]
      eventlib graph --out shop.svg
      eventlib graph --out shop.svg --log
      eventlib graph --format dot | dot -Tpdf > shop.pdf
      eventlib graph --log --json | jq '.arrows[] | select(.p95_ms > 5000)'
    """
    from eventlib.cli.graphing import print_graph

    if as_json and written_as is not None:
        raise typer.BadParameter("--json and --format both say how it is written: leave one out")
    found = "json" if as_json else written_as or _ENDINGS.get(out.suffix if out else "", "mermaid")
    counted = log is not None or Shared.of(context).log is not None
    print_graph(LogOptions.of(context, app, log), found, out, counted=counted)
