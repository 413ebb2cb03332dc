"""`eventlib graph`: the choreography's picture, with what a log tells of each arrow."""

import sys
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

from eventlib.analysis.diagram.model import Picture, picture
from eventlib.analysis.diagram.svg import svg
from eventlib.analysis.diagram.text import dot, mermaid
from eventlib.cli import output
from eventlib.cli.opened import look
from eventlib.cli.options import LogOptions
from eventlib.cli.project import load_choreography
from eventlib.operations.edge_traffic import count_traffic

WRITERS: dict[str, Callable[[Picture], str]] = {"mermaid": mermaid, "dot": dot, "svg": svg}


def print_graph(place: LogOptions, written_as: str, out: Path | None, *, counted: bool) -> None:
    """Write the choreography's picture to a file or to stdout; `counted` adds the traffic on the log."""
    shown = picture(load_choreography(place.app))
    if counted:
        shown = _with_traffic(place, shown)
    text = _json(shown) if written_as == "json" else WRITERS[written_as](shown)
    if out is None:
        sys.stdout.write(text)
    else:
        out.write_text(text, encoding="utf-8")


def _with_traffic(place: LogOptions, shown: Picture) -> Picture:
    with output.terminal(stderr=True).status(f"counting the events on {place.url} …"):
        found = look(place, count_traffic)
    about = [f"{found.total:,} events on {place.url}; p95 from cause to event, exact to 1%"]
    if found.unexplained:
        about.append(f"{found.unexplained:,} follow from what these services do not answer so (older code?)")
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
