"""A part of the report: a small table with a chart; in a notebook it shows itself."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from html import escape
from typing import Any, Literal, NamedTuple

from matplotlib.figure import Figure
from pyspark.sql import DataFrame

from analytics.reporting.money import money

Kind = Literal["text", "count", "money", "ms", "share"]
Row = dict[str, Any]
Draw = Callable[[Sequence[Row], bool], Figure | None]
"""Draws rows, narrow or wide; None without anything to draw."""


class Column(NamedTuple):
    """A column of the table: its name in the rows, its heading, and its kind.

    `money` is in minor units of the row's `currency`, `share` from 0 to 1.
    """

    name: str
    title: str
    kind: Kind = "text"

    def text(self, row: Row) -> str:
        """Return a row's value as text."""
        value = row[self.name]
        if value is None:
            return "–"  # noqa: RUF001  the sign for nothing
        match self.kind:
            case "count":
                return f"{value:,}"
            case "money":
                return money(value, row["currency"])
            case "ms":
                return duration(value)
            case "share":
                return f"{value:.1%}"
            case "text":
                return str(value)


def duration(milliseconds: float) -> str:
    """Return a duration in a readable unit."""
    for size, unit in ((86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1_000, "s")):
        if milliseconds >= size:
            return f"{milliseconds / size:,.1f} {unit}"
    return f"{milliseconds:,.0f} ms"


@dataclass(frozen=True, eq=False)
class Part:
    """A table with a title, a sentence of explanation, and its chart.

    `frame` is small after aggregation; at most `most` rows of it are shown. `describe` returns the chart's text alternative,
    `nothing` is shown instead of an empty table.
    """

    name: str
    title: str
    says: str
    columns: Sequence[Column]
    frame: DataFrame
    draw: Draw | None = None
    describe: Callable[[Sequence[Row]], str] = lambda _: ""
    most: int = 100
    nothing: str = "None."

    @cached_property
    def rows(self) -> Sequence[Row]:
        """The rows, collected once."""
        return [row.asDict(recursive=True) for row in self.frame.collect()]

    def plot(self, *, narrow: bool = False) -> Figure | None:
        """Return the chart; None without anything to draw."""
        return self.draw(self.rows, narrow) if self.draw is not None and self.rows else None

    def _repr_html_(self) -> str:
        from analytics.reporting.drawing import plain_svg

        figure = self.plot()
        head = "".join(f"<th>{escape(column.title)}</th>" for column in self.columns)
        body = "".join(
            f"<tr>{''.join(f'<td>{escape(column.text(row))}</td>' for column in self.columns)}</tr>"
            for row in self.rows[: self.most]
        )
        picture = "" if figure is None else plain_svg(figure)
        return (
            f"<h4>{escape(self.title)}</h4>{picture}<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
        )
