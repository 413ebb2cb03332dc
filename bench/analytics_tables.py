"""The tables that the analytics' bench prints of what it has measured."""

from collections.abc import Mapping
from typing import Any

from rich.table import Table

Measured = list[dict[str, Any]]


def table_of(found: Measured, size: int) -> Table:
    """Return what was measured on a log of some size as a table."""
    table = Table(title=f"about {size:,} events", title_justify="left")
    for heading in (
        "source",
        "cores",
        "job",
        "times",
        "events/s",
        "of the scan",
        "CPU µs an event",
        "JVM MB",
        "workers MB",
        "findings",
    ):
        table.add_column(heading, justify="left" if heading in {"source", "job"} else "right")
    for each in found:
        scan = next(it for it in found if (it["source"], it["cores"]) == (each["source"], each["cores"]))  # the first
        table.add_row(
            *(each["source"], str(each["cores"]), each["job"], str(each["times"]), f"{each['events_per_s']:,.0f}"),
            f"{each['events_per_s'] / scan['events_per_s']:.2f}",
            f"{each['cpu_us_per_event']:.1f}",
            *(f"{each[key]:,.0f}" for key in ("java_mb", "workers_mb", "findings")),
        )
    return table


def growth_of(report: Mapping[int, Measured]) -> Table:
    """Return each job's CPU for an event, side by side for the sizes of the log."""
    table = Table(title="CPU µs an event, and MB at most, as the log grows", title_justify="left")
    for heading in ("source", "cores", "job", *(f"{size:,}" for size in report)):
        table.add_column(heading)
    places = dict.fromkeys((each["source"], each["cores"], each["job"]) for found in report.values() for each in found)
    for place in places:
        cells = list[str]()
        for found in report.values():
            each = next((it for it in found if (it["source"], it["cores"], it["job"]) == place), None)
            cells.append("" if each is None else f"{each['cpu_us_per_event']:.1f}, {_mb(each):,.0f} MB")
        table.add_row(place[0], str(place[1]), place[2], *cells)
    return table


def _mb(each: Mapping[str, Any]) -> float:
    return float(each["java_mb"] + each["workers_mb"])
