"""`eventlib graph`: the choreography's diagram, with a log's traffic on each arrow."""

import sys
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Literal

import typer

from eventlib.analysis.diagram.model import Picture, picture
from eventlib.analysis.diagram.svg import svg
from eventlib.analysis.diagram.text import dot, mermaid
from eventlib.cli._common import output
from eventlib.cli._common.options import AppOption, CountedLogOption, JsonOption, LogOptions, Shared, run_on_log
from eventlib.operations.edge_traffic import count_traffic
from eventlib.project import load_choreography

Format = Literal["mermaid", "dot", "svg"]


_ENDINGS = {".svg": "svg", ".dot": "dot", ".gv": "dot", ".json": "json"}


def graph(
    context: typer.Context,
    written_as: Annotated[
        Format | None,
        typer.Option(
            "--format",
            "-f",
            metavar="mermaid|dot|svg",
            help="The output format. [dim]Default: as FILE ends, or mermaid[/dim]",
            show_default=False,
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", metavar="FILE", dir_okay=False, help="The output file, instead of stdout."),
    ] = None,
    as_json: JsonOption = False,
    app: AppOption = None,
    log: CountedLogOption = None,
) -> None:
    """Draw the choreography: which event can follow from which.

    Forward steps are solid, failures red, compensations dashed. With --log,
    each arrow shows how often it occurred and the p95 from cause to event;
    without a URL, on the log that all commands use.

    [dim]Examples:[/dim]
      eventlib graph --out shop.svg
      eventlib graph --out shop.svg --log
      eventlib graph --format dot | dot -Tpdf > shop.pdf
      eventlib graph --log --json | jq '.arrows[] | select(.p95_ms > 5000)'
    """
    if as_json and written_as is not None:
        raise typer.BadParameter("--json and --format both choose the output format: leave one out")
    found = "json" if as_json else written_as or _ENDINGS.get(out.suffix if out else "", "mermaid")
    counted = log is not None or Shared.of(context).log is not None
    print_graph(LogOptions.of(context, app, log), found, out, counted=counted)


WRITERS: dict[str, Callable[[Picture], str]] = {"mermaid": mermaid, "dot": dot, "svg": svg}


def print_graph(log_options: LogOptions, written_as: str, out: Path | None, *, counted: bool) -> None:
    """Write the choreography's diagram to a file or to stdout; `counted` adds the log's traffic."""
    shown = picture(load_choreography(log_options.app))
    if counted:
        shown = _with_traffic(log_options, shown)
    text = _json(shown) if written_as == "json" else WRITERS[written_as](shown)
    if out is None:
        sys.stdout.write(text)
    else:
        out.write_text(text, encoding="utf-8")


def _with_traffic(log_options: LogOptions, shown: Picture) -> Picture:
    with output.terminal(stderr=True).status(f"counting the events on {log_options.url} …"):
        found = run_on_log(log_options, count_traffic)
    about = [f"{found.total:,} events on {log_options.url}; p95 from cause to event, exact to 1%"]
    if found.unexplained:
        about.append(f"{found.unexplained:,} have a cause that these services do not answer so (older code?)")
    if found.without_cause:
        about.append(f"{found.without_cause:,} have a cause that is not on the log, or too far back")
    return shown.counted("; ".join(about), found.counts, found.arrows)


def _json(shown: Picture) -> str:
    nodes = [{**asdict(node), "count": shown.counts.get(node.id)} for node in shown.nodes]
    arrows = [{**asdict(arrow), **_traffic(shown, (arrow.source, arrow.target))} for arrow in shown.arrows]
    found = {"title": shown.title, "about": shown.subtitle, "nodes": nodes, "arrows": arrows}
    return output.json_line(found).decode() + "\n"


def _traffic(shown: Picture, arrow: tuple[str, str]) -> dict[str, int | None]:
    if shown.traffic is None:
        return {}
    traffic = shown.traffic.get(arrow)
    return {"count": 0, "p95_ms": None} if traffic is None else asdict(traffic)
