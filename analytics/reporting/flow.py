"""The diagram of a choreography, with what the rebuilt tables say of its arrows."""

from collections import Counter
from collections.abc import Sequence

from analytics.reporting.part import Draw, Row
from eventlib.analysis.diagram.building import ExplainedArrows, picture
from eventlib.analysis.diagram.model import Traffic
from eventlib.analysis.diagram.svg import svg
from eventlib.analysis.event_graph import EventGraph
from eventlib.model.choreography import Choreography

SCOPE = ".diagram"
"""The selector of the element that the diagram's styles apply in."""


def diagram(choreography: Choreography) -> Draw:
    """Return what draws the rows of `sagas.flow`: the events on each arrow, and the p95 from cause to event."""

    def draw(rows: Sequence[Row], narrow: bool) -> str:  # noqa: ARG001  it is as wide as it is, and scrolls
        arrows, counts = dict[tuple[str, str], Traffic](), Counter[str]()
        explained = ExplainedArrows(EventGraph(choreography))
        for row in rows:
            counts[row["type"]] += row["events"]
            found = explained.of(row["cause_type"] or "", row["type"], row["source"] or "")
            for arrow in found[:-1]:
                arrows[arrow] = Traffic(row["events"] + _count(arrows, arrow))
            for arrow in found[-1:]:
                late = [row["p95_ms"], arrows[arrow].p95_ms if arrow in arrows else None]
                arrows[arrow] = Traffic(
                    row["events"] + _count(arrows, arrow), max((ms for ms in late if ms is not None), default=None)
                )
        shown = picture(choreography).counted("events, and the p95 from cause to event", counts, arrows)
        return f'<div class="{SCOPE.removeprefix(".")}">{svg(shown, SCOPE)}</div>'

    return draw


def _count(arrows: dict[tuple[str, str], Traffic], arrow: tuple[str, str]) -> int:
    return arrows[arrow].count if arrow in arrows else 0
