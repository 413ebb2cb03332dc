"""The chart of the shop's sales over time."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING

from analytics.report import SERIES, Row, canvas, main_currencies, short, short_money, styled

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_FORMS = ("%Y-%m-%d %H:%M", "%Y-%m-%d", "%Y-%m")


def over_time(every: Sequence[Row], narrow: bool) -> "Figure | None":
    """Draw orders by how they ended, and below them revenue by currency; impossible times are left out."""
    from matplotlib.dates import AutoDateLocator, ConciseDateFormatter

    days = {row["period"]: day for row in every if (day := _day(row["period"])) is not None}
    rows = [row for row in every if row["period"] in days]
    if not rows:
        return None
    currencies = main_currencies(rows)
    in_order = sorted(days.values())
    width = 0.85 * min((after - before for before, after in pairwise(in_order)), default=1.0)
    with styled():
        figure, (top, *others) = canvas(1.7 * (1 + len(currencies)), narrow=narrow, panels=1 + len(currencies))
        _stacked(top, rows, days, width)
        for panel, currency in zip(others, currencies, strict=True):
            own = [row for row in rows if row["currency"] == currency]
            panel.bar(
                [days[row["period"]] for row in own], [row["revenue_cents"] for row in own], width, color=SERIES[2]
            )
            panel.set_title(f"revenue, {currency}", loc="left", fontsize=10)
            panel.yaxis.set_major_formatter(partial(_money_tick, currency))
        for panel in (top, *others):
            locator = AutoDateLocator(maxticks=5 if narrow else 9)  # type: ignore[no-untyped-call]  # matplotlib's
            panel.xaxis.set_major_locator(locator)
            panel.xaxis.set_major_formatter(ConciseDateFormatter(locator))  # type: ignore[no-untyped-call]  # as above
            panel.set_xlim(in_order[0] - width, in_order[-1] + width)
            panel.set_ylim(0, panel.get_ylim()[1] * 1.06)
            panel.grid(visible=False, axis="x")
    return figure


def _stacked(panel: "Axes", rows: Sequence[Row], days: Mapping[str, float], width: float) -> None:
    """Draw orders by period, of all currencies, stacked by outcome."""
    below = dict.fromkeys(days, 0)
    for kind, color in zip(("completed", "cancelled", "open"), SERIES, strict=False):
        found = dict.fromkeys(days, 0)
        for row in rows:
            found[row["period"]] += row[kind]
        if any(found.values()):
            panel.bar([*days.values()], [*found.values()], width, [*below.values()], color=color, label=kind)
            below = {period: below[period] + number for period, number in found.items()}
    panel.set_title("orders", loc="left", fontsize=10)
    panel.legend(loc="lower right", bbox_to_anchor=(1, 1), ncols=3, frameon=False, borderaxespad=0.1)
    panel.yaxis.set_major_formatter(lambda value, _: short(value))


def _money_tick(currency: str, value: float, _at: int) -> str:
    return short_money(value, currency)


def _day(period: str) -> float | None:
    """Return a period's beginning in matplotlib's time; None for one outside the calendar."""
    from matplotlib.dates import date2num

    for form in _FORMS:
        try:
            at = datetime.strptime(period, form)  # noqa: DTZ007  only drawn
        except ValueError:
            continue
        return float(date2num(at))  # type: ignore[no-untyped-call]  # matplotlib's
    return None
