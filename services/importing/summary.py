"""The summary of an import, for a person."""

import os
import shlex
import shutil
import sys
from collections.abc import Iterable, Iterator
from decimal import Decimal
from importlib.util import find_spec
from pathlib import Path

from rich.console import Console, RenderableType
from rich.markup import escape
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from eventlib.config import eventlib_settings
from eventlib.values import decimals_of
from services import shop
from services.importing.orders import Reason
from services.importing.report import COMPENSATIONS, Report

CONSOLE = "http://127.0.0.1:9000"
"""Where `eventlib console` is by default."""

STORIES = {
    "undeliverable": "One that could not be delivered: its stock and its money went back:",
    "declined": "One whose payment was declined: its stock was released:",
    "out_of_stock": "One that was out of stock: the units reserved for it were released:",
    "payment_uncertain": "One whose payment stayed unknown: the charge was voided, and its stock released:",
}
_LISTED = 10
_WORDS = {
    "payment_uncertain": "payment uncertain, voided",
    "payment_unconfirmed": "payment not confirmed in time, voided",
}
_MEANING = {
    Reason.MALFORMED: "not an order in the agreed shape",
    Reason.CREDIT_NOTE: "takes an order back",
    Reason.QUANTITY: "a line with less than one unit",
    Reason.UNIT_PRICE: "below 0, or more than two decimals",
    Reason.NOTHING_TO_PAY: "the total is 0",
    Reason.CONFLICT: "the log has another order under this id",
}
_SECOND_MS = 1_000

Row = tuple[str, object, str]
"""What is counted, how many there are, and a remark."""


def show_summary(console: Console, report: Report) -> None:
    """Print the summary."""
    parts: list[RenderableType] = [_table(f"In the file  [not bold dim]{escape(report.file)}[/]", _intake(report))]
    if not report.place_only:
        parts += [_table("Outcomes", _endings(report)), _times(report)]
    parts += [Text(f"! {note}", style="yellow") for note in report.notes]
    if report.waiting:
        parts.append(_table("Waiting for a person", _waiting(report)))
    for part in parts:
        console.print(Padding(part, (1, 0, 0, 1)))
    console.print("\n [bold]Next steps[/]")
    for command, why in _commands(report):
        console.print(f" {why}", style="dim", markup=False)
        console.print(
            f"   {command}", style="cyan", markup=False, soft_wrap=True
        )  # cut into lines, it cannot be copied
    console.print()


def _table(title: str, rows: Iterable[Row]) -> Table:
    table = Table(
        title=f"[bold]{title}[/]", title_justify="left", title_style="", box=None, show_header=False, pad_edge=False
    )
    table.add_column(min_width=34, no_wrap=True)
    table.add_column(justify="right", min_width=8)
    table.add_column(style="dim")
    for what, count, remark in rows:
        table.add_row(what, f"{count:,}" if isinstance(count, int) else str(count), Text(remark))
    return table


def _intake(report: Report) -> Iterator[Row]:
    yield "[bold]orders read[/]", report.read, ""
    yield "placed now", report.placed, "" if report.placed else "nothing was new"
    if report.placed_before:
        yield "on the log before", report.placed_before, "unchanged"
    if report.repeated:
        yield "repeated", report.repeated, "the same order again"
    for reason in filter(report.refused.get, Reason):
        yield f"refused: [yellow]{reason}[/]", report.refused[reason], _MEANING[reason]
    yield "products", report.products.in_file, f"{report.products.listed:,} new, {report.deliveries:,} deliveries"


def _endings(report: Report) -> Iterator[Row]:
    money = sorted(report.money.items())
    shipped = " · ".join(f"{_amount(sums.completed_cents, currency)}" for currency, sums in money)
    yield (
        "[green]completed[/]",
        report.completed,
        f"{report.units_shipped:,} units, {shipped}" if report.completed else "",
    )
    for reason, count in report.cancelled.most_common():
        words = escape(_WORDS.get(reason, reason.replace("_", " ")))
        yield f"cancelled: [red]{words}[/]", count, f"{count / report.on_log:.1%}" if report.on_log else ""
    if report.waiting:
        yield "[magenta]waiting for a person[/]", len(report.waiting), "see below"
    returned = ", ".join(
        f"{_amount(sums.refunded_cents, currency)} returned" for currency, sums in money if sums.refunded_cents
    )
    for kind, words in COMPENSATIONS.items():
        if count := report.compensations[kind]:
            yield f"[dim]compensation: {words}[/]", count, returned if kind == "PaymentRefunded" else ""


def _times(report: Report) -> Table | Text:
    if not (report.seconds and report.ended_since):
        speed = "[dim]Nothing was left to do: every order had ended before.[/]"
    else:
        speed = f"[green]{report.orders_per_s:,.0f} orders/s[/] and {report.events_per_s:,.0f} events/s over {report.seconds:,.1f} s"
    named = report.latency_ms
    if not named:
        return Text.from_markup(speed)
    table = Table(title="How long it took", title_justify="left", title_style="bold", box=None, pad_edge=False)
    table.caption, table.caption_justify, table.caption_style = f"\n{speed}", "left", ""
    table.add_column("step")
    for share in ("p50", "p95", "p99"):
        table.add_column(share, justify="right", min_width=9)
    for name, shares in named.items():
        table.add_row(name, *map(_duration, shares.values()), style="bold" if name.startswith("submitted") else "")
    return table


def _waiting(report: Report) -> Iterator[Row]:
    for order in report.waiting[:_LISTED]:
        yield escape(order.order_id), "", f"{order.service}/{order.decider} {order.key}: {order.reason}"
    if len(report.waiting) > _LISTED:
        yield "…", "", f"and {len(report.waiting) - _LISTED:,} more"


def _commands(report: Report) -> Iterator[tuple[str, str]]:
    eventlib = _eventlib()
    is_default = report.log == (eventlib_settings().log or shop.default_log)
    log = "" if is_default else f" --log {shlex.quote(report.log)}"
    if report.place_only:
        yield f"{eventlib} run{log}", "Run the services on what was placed:"
        return
    stories = {"completed": "An order that was completed, event by event:", **STORIES}
    for reason in (*stories, *(report.examples.keys() - stories)):
        if order_id := report.examples.get(reason):
            why = stories.get(reason, f"One that was cancelled ({reason}):")
            yield f"{eventlib} saga {shlex.quote(order_id)}{log}", why
    if report.waiting:
        yield f"{eventlib} parked list{log}", "What waits for a person, and why:"
    yield f"{eventlib} topics{log}", "What is on the log:"
    yield f"{eventlib} graph", "The services, and the events between them:"
    yield f"{eventlib} console{log}", f"All of it in a browser: run this, then open {CONSOLE}"
    if Path("Makefile").exists() and find_spec("pyspark") is None:
        yield "make setup", "Spark's tables and report, the simulator, a Kafka broker: this adds what they need:"


def _eventlib() -> str:
    """Return how to call the command here: by its name when the shell finds it, else by its path."""
    if shutil.which("eventlib"):
        return "eventlib"
    beside = Path(sys.executable).with_name("eventlib")
    return os.path.relpath(beside) if beside.exists() else "eventlib"


def _amount(cents: int, currency: str) -> str:
    return f"{Decimal(cents).scaleb(-decimals_of(currency)):,f} {currency}"


def _duration(milliseconds: int | None) -> str:
    if milliseconds is None:
        return "-"
    return f"{milliseconds:,} ms" if milliseconds < 10 * _SECOND_MS else f"{milliseconds / _SECOND_MS:,.1f} s"
