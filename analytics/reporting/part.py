"""A part of the report: a small table with a chart; in a notebook it shows itself."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from html import escape
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from pyspark.sql import DataFrame

from analytics.reporting.money import money

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Kind = Literal["text", "count", "number", "money", "ms", "share"]
Row = dict[str, Any]
Tables = Mapping[str, DataFrame]
"""The rebuilt tables by name, as `analytics.rebuilding.tables` returns them."""

Draw = Callable[[Sequence[Row], bool], "Figure | str | None"]
"""Draws rows, narrow or wide, with matplotlib or as the text of an SVG element; None without anything to draw."""


class Column(NamedTuple):
    """A column of the table: its name in the rows, its heading, and its kind.

    `money` is in minor units of the row's `currency`, `share` from 0 to 1. `page` returns the console's page about a row,
    from `analytics.reporting.console_pages`, or "" if there is none.
    """

    name: str
    title: str
    kind: Kind = "text"
    page: Callable[[Row], str] = lambda _: ""

    def text(self, row: Row) -> str:
        """Return a row's value as text."""
        value = row[self.name]
        if value is None:
            return "–"  # noqa: RUF001  the sign for nothing
        return money(value, row["currency"]) if self.kind == "money" else _TEXTS[self.kind](value)


def duration(milliseconds: float) -> str:
    """Return a duration in a readable unit."""
    for size, unit in ((86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1_000, "s")):
        if milliseconds >= size:
            return f"{milliseconds / size:,.1f} {unit}"
    return f"{milliseconds:,.0f} ms"


_TEXTS: Mapping[str, Callable[[Any], str]] = {
    "text": str,
    "count": "{:,}".format,
    "number": "{:,.2f}".format,
    "ms": duration,
    "share": "{:.1%}".format,
}


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

    def drawn(self, *, narrow: bool = False) -> "Figure | str | None":
        """Return the chart, or the text of an SVG element; None without anything to draw."""
        return self.draw(self.rows, narrow) if self.draw is not None and self.rows else None

    def plot(self) -> "Figure | None":
        """Return the chart, for matplotlib; None without one."""
        drawn = self.drawn()
        return None if isinstance(drawn, str) else drawn

    def _repr_html_(self) -> str:
        from analytics.reporting.drawing import plain_svg

        figure = self.drawn()
        head = "".join(f"<th>{escape(column.title)}</th>" for column in self.columns)
        body = "".join(
            f"<tr>{''.join(f'<td>{escape(column.text(row))}</td>' for column in self.columns)}</tr>"
            for row in self.rows[: self.most]
        )
        picture = figure or "" if figure is None or isinstance(figure, str) else plain_svg(figure)
        return (
            f"<h4>{escape(self.title)}</h4>{picture}<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
        )


@dataclass(frozen=True)
class Section:
    """Parts under one heading, that of the first of them; `name` is its place in the page, as in `report.html#time`."""

    name: str
    title: str
    parts: Sequence[Callable[[Tables], Part]]


class Tile(NamedTuple):
    """A figure at the top of the page, with what it is; its `mood` is "", `good` or `bad`."""

    value: str
    label: str
    mood: str = ""


@dataclass(frozen=True)
class Report:
    """What an application adds to the report: its title, the figures at the top, and sections of its own.

    `tables` are those that the sections are made of, beside those that every report reads.
    A section with the name of one that every report has (`flow`, `outcomes`, `time`, `undone`, `waiting`, `effects`,
    `audit`) takes its place; others come before. `tiles` gets the parts by name.
    """

    title: str
    sections: Sequence[Section] = ()
    tiles: Callable[[Mapping[str, Part]], Sequence[Tile]] = lambda _: ()
    tables: Sequence[str] = ()
