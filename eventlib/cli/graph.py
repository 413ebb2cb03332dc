"""`eventlib graph`: the choreography's diagram, with a log's traffic on each arrow."""

import sys
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Literal

import typer

from eventlib.analysis.diagram.building import picture
from eventlib.analysis.diagram.model import Arrow, Picture
from eventlib.analysis.diagram.svg import svg
from eventlib.analysis.diagram.text import dot, mermaid
from eventlib.cli._common import output
from eventlib.cli._common.connectors import FileOption, OutboxesOption, SinksOption, connectors_of
from eventlib.cli._common.options import AppOption, CountedLogOption, JsonOption, LogOptions, Shared, option, run_on_log
from eventlib.model.project import load_choreography
from eventlib.operations.edge_traffic import count_traffic

Format = Literal["mermaid", "dot", "svg"]


_ENDINGS = {".svg": "svg", ".dot": "dot", ".gv": "dot", ".json": "json"}


def graph(  # noqa: PLR0913, PLR0917  one argument for each option
    context: typer.Context,
    written_as: Annotated[
        Format | None,
        option("--format -f", "mermaid|dot|svg", "The output format. [dim]Default: as FILE ends, or mermaid[/dim]"),
    ] = None,
    out: Annotated[
        Path | None, option("--out -o", "FILE", "The output file, instead of stdout.", dir_okay=False)
    ] = None,
    as_json: JsonOption = False,
    sinks: SinksOption = None,
    outboxes: OutboxesOption = None,
    subscribers: FileOption = None,
    app: AppOption = None,
    log: CountedLogOption = None,
) -> None:
    """Draw the choreography: which event can follow from which.

    Forward steps are solid, failures red, compensations dashed; outboxes stand
    above what they put, sinks and subscribers of webhooks below what they get.
    With --log, each arrow shows how often it occurred and the p99 from cause to event;
    without a URL, on the log that all commands use.

    [dim]Examples:[/dim]
      eventlib graph --out shop.svg
      eventlib graph --out shop.svg --log
      eventlib graph --format dot | dot -Tpdf > shop.pdf
      eventlib graph --log --json | jq '.arrows[] | select(.p99_ms > 5000)'
    """
    if as_json and written_as is not None:
        raise typer.BadParameter("--json and --format both choose the output format: leave one out")
    found = "json" if as_json else written_as or _ENDINGS.get(out.suffix if out else "", "mermaid")
    counted = log is not None or Shared.of(context).log is not None
    options = LogOptions.of(context, app, log)
    choreography = load_choreography(options.app)
    shown = picture(choreography, connectors_of(choreography, sinks, outboxes, subscribers))
    shown = _with_traffic(options, shown) if counted else shown
    text = _json(shown) if found == "json" else WRITERS[found](shown)
    if out is None:
        sys.stdout.write(text)
    else:
        out.write_text(text, encoding="utf-8")


WRITERS: dict[str, Callable[[Picture], str]] = {"mermaid": mermaid, "dot": dot, "svg": svg}


def _with_traffic(log_options: LogOptions, shown: Picture) -> Picture:
    with output.terminal(stderr=True).status(f"counting the events on {log_options.url} …"):
        found = run_on_log(log_options, count_traffic)
    about = [f"{found.total:,} events on {log_options.url}; p99 from cause to event, exact to 1%"]
    if found.unexplained:
        about.append(f"{found.unexplained:,} have a cause that these services do not answer so (older code?)")
    if found.without_cause:
        about.append(f"{found.without_cause:,} have a cause that is not on the log, or too far back")
    return shown.counted("; ".join(about), found.counts, found.arrows)


def _json(shown: Picture) -> str:
    nodes = [{**asdict(node), "count": shown.counts.get(node.id)} for node in shown.nodes]
    arrows = [{**asdict(arrow), **_traffic(shown, arrow)} for arrow in shown.arrows]
    found = {"title": shown.title, "about": shown.subtitle, "nodes": nodes, "arrows": arrows}
    return output.json_line(found).decode() + "\n"


def _traffic(shown: Picture, arrow: Arrow) -> dict[str, int | None]:
    if shown.traffic is None:
        return {}
    traffic = shown.traffic.get((arrow.source, arrow.target))
    if traffic is None:
        return {"count": 0 if shown.is_countable(arrow) else None, "p95_ms": None, "p99_ms": None}
    return asdict(traffic)
