"""Charts of a part's rows."""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from analytics.reporting.drawing import SERIES, bars, ranges
from analytics.reporting.money import money
from analytics.reporting.part import Column, Draw, Row, duration
from eventlib.analysis.diagram.building import ExplainedArrows, picture
from eventlib.analysis.diagram.model import Traffic
from eventlib.analysis.diagram.svg import svg
from eventlib.analysis.event_graph import EventGraph
from eventlib.model.choreography import Choreography

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_TOP = 12
_CURRENCIES = 3
_STEPS = 24
_DIAGRAM = ".diagram"
"""The selector of the element that the diagram's styles apply in."""


def main_currencies(rows: Sequence[Row]) -> list[str]:
    """Return the few currencies with most orders; rows have a `currency` and a number of `orders`."""
    orders = dict[str, int]()
    for row in rows:
        orders[row["currency"]] = orders.get(row["currency"], 0) + row["orders"]
    return sorted(orders, key=lambda currency: (-orders[currency], currency))[:_CURRENCIES]


def top_money(label: str, value: str) -> Draw:
    """Return a chart of the rows with most money: in the most frequent currency, since others cannot be compared."""

    def draw(rows: Sequence[Row], narrow: bool) -> "Figure | None":
        found = top_rows(rows, value)
        if not found:
            return None
        texts = [money(row[value], row["currency"]) for row in found]
        return bars([row[label] for row in found], [row[value] for row in found], texts, narrow=narrow)

    return draw


def top_rows(rows: Sequence[Row], value: str) -> list[Row]:
    """Return the first rows of the most frequent currency, those with any money."""
    currency = next(iter(main_currencies(rows)), "")
    return [row for row in rows if row["currency"] == currency and row[value]][:_TOP]


def counted(
    label: Callable[[Row], str], value: str, text: Callable[[Row], str], color: str = SERIES[0], most: int = _TOP
) -> Draw:
    """Return a chart of numbers that may be added up: those of one label are."""

    def draw(rows: Sequence[Row], narrow: bool) -> "Figure | None":
        sums = dict[str, Row]()
        for row in rows:
            name = label(row)
            sums[name] = {**row, value: row[value] + sums.get(name, {value: 0})[value]}
        found = sorted(sums, key=lambda name: -sums[name][value]) if most else [*sums]
        found = found[: most or None]
        if not any(sums[name][value] for name in found):
            return None
        return bars(
            found,
            [sums[name][value] for name in found],
            [text(sums[name]) for name in found],
            narrow=narrow,
            color=color,
        )

    return draw


def first_bars(label: Callable[[Row], str], column: Column) -> Callable[[Sequence[Row]], str]:
    """Return what describes a bar chart: the first five bars, each with its value."""
    return lambda rows: "Bars. " + "; ".join(f"{label(row)}: {column.text(row)}" for row in rows[:5]) + "."


def steps(rows: Sequence[Row], narrow: bool) -> "Figure":
    """Draw how long steps take; in the table's order, the most frequent ones if there are too many."""
    often = sorted(rows, key=lambda row: -row["events"])[:_STEPS]
    shown = [row for row in rows if row in often]
    labels = [row["type"] if narrow else f"{row['cause_type']} → {row['type']}" for row in shown]
    triples = [(row["p50_ms"], row["p95_ms"], row["p99_ms"]) for row in shown]
    return ranges(labels, triples, duration, narrow=narrow)


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
        return f'<div class="{_DIAGRAM.removeprefix(".")}">{svg(shown, _DIAGRAM)}</div>'

    return draw


def _count(arrows: dict[tuple[str, str], Traffic], arrow: tuple[str, str]) -> int:
    return arrows[arrow].count if arrow in arrows else 0
