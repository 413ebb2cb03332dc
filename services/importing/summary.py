"""The summary of an import, for a person."""

import os
import shlex
import shutil
import sys
from collections.abc import Iterator
from decimal import Decimal
from importlib.util import find_spec
from pathlib import Path

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from eventlib.config import eventlib_settings
from eventlib.values import decimals_of
from services import shop
from services.importing.orders import Reason
from services.importing.report import COMPENSATIONS, Report

_LISTED = 10
_WORDS = {
    "out_of_stock": "out of stock",
    "payment_uncertain": "payment uncertain, voided",
    "payment_unconfirmed": "payment not confirmed in time, voided",
}
STORIES = {
    "undeliverable": "One that could not be delivered: its stock and its money went back:",
    "declined": "One whose payment was declined: its stock was released:",
    "out_of_stock": "One that was out of stock: the units reserved for it were released:",
    "payment_uncertain": "One whose payment stayed unknown: the charge was voided, and its stock released:",
}
_SECOND_MS = 1_000


def show_summary(console: Console, report: Report) -> None:
    """Print the summary."""
    parts: list[RenderableType] = [_intake(report)]
    if not report.place_only:
        parts += [_endings(report), _times(report)]
    parts += [Text(f"! {note}", style="yellow") for note in report.notes]
    if report.waiting:
        parts.append(_waiting(report))
    for part in parts:
        console.print(Padding(part, (1, 0, 0, 1)))
    console.print()
    console.print(_next(report), soft_wrap=True)  # a command that is cut into lines cannot be copied


def _intake(report: Report) -> Table:
    counts, catalogue = report.counts, report.catalogue
    table = _table("In the file", report.file)
    table.add_row(_bold("orders read"), _bold(f"{counts.read:,}"), "")
    table.add_row("placed now", f"{counts.placed:,}", "" if counts.placed else "nothing was new")
    if counts.before:
        table.add_row("on the log before", f"{counts.before:,}", "unchanged")
    if counts.repeated:
        table.add_row("repeated", f"{counts.repeated:,}", "the same order again")
    for reason in Reason:
        if count := counts.refused[reason]:
            table.add_row(Text("refused: ").append(reason, style="yellow"), f"{count:,}", _MEANING[reason])
    listed = f"{catalogue.listed:,} new, {catalogue.delivered:,} deliveries"
    table.add_row("products", f"{report.products:,}", listed)
    return table


def _endings(report: Report) -> Table:
    outcomes = report.outcomes
    table = _table("Outcomes", "")
    money = " · ".join(f"{_amount(m.completed_cents, c)} {c}" for c, m in sorted(outcomes.money.items()))
    shipped = f"{outcomes.units:,} units, {money}" if outcomes.completed else ""
    table.add_row(Text("completed", style="green"), f"{outcomes.completed:,}", shipped)
    for reason, count in outcomes.cancelled.most_common():
        words = _WORDS.get(reason, reason.replace("_", " "))
        table.add_row(Text("cancelled: ").append(words, style="red"), f"{count:,}", _share(count, outcomes.placed))
    if report.waiting:
        table.add_row(Text("waiting for a person", style="magenta"), f"{len(report.waiting):,}", "see below")
    for kind, words in COMPENSATIONS.items():
        if count := outcomes.compensations[kind]:
            table.add_row(Text(f"compensation: {words}", style="dim"), f"{count:,}", _returned(report, kind))
    return table


def _returned(report: Report, kind: str) -> str:
    if kind != "PaymentRefunded":
        return ""
    money = sorted(report.outcomes.money.items())
    return ", ".join(
        f"{_amount(m.refunded_cents, currency)} {currency} returned" for currency, m in money if m.refunded_cents
    )


def _times(report: Report) -> RenderableType:
    speed = Text()
    if report.seconds and report.outcomes.ended_since:
        speed.append(f"{report.orders_per_s:,.0f} orders/s", style="bold green")
        speed.append(f" and {report.events_per_s:,.0f} events/s over {report.seconds:,.1f} s")
    else:
        speed.append("Nothing was left to do: every order had ended before.", style="dim")
    named = report.latencies()
    if not named:
        return speed
    table = Table(title="How long it took", title_justify="left", title_style="bold", box=None, pad_edge=False)
    table.add_column("step")
    for share in ("p50", "p95", "p99"):
        table.add_column(share, justify="right", min_width=9)
    for name, shares in named.items():
        table.add_row(name, *map(_duration, shares.values()), style="bold" if name.startswith("submitted") else "")
    return Group(table, Text(), speed)


def _waiting(report: Report) -> RenderableType:
    table = _table("Waiting for a person", "")
    for order in report.waiting[:_LISTED]:
        table.add_row(Text(order.order_id), "", Text(f"{order.service}/{order.decider} {order.key}: {order.reason}"))
    if len(report.waiting) > _LISTED:
        table.add_row("…", "", f"and {len(report.waiting) - _LISTED:,} more")
    return table


CONSOLE = "http://127.0.0.1:9000"
"""Where `eventlib console` is by default."""


def _next(report: Report) -> Text:
    lines = Text(" Next steps\n", style="bold")
    for command, why in _commands(report):
        lines.append(f" {why}\n", style="not bold dim").append(f"   {command}\n", style="not bold cyan")
    return lines


def _commands(report: Report) -> Iterator[tuple[str, str]]:
    eventlib = _eventlib()
    is_default = report.log_url == (eventlib_settings().log or shop.default_log)
    log = "" if is_default else f" --log {shlex.quote(report.log_url)}"
    if report.place_only:
        yield f"{eventlib} run{log}", "Run the services on what was placed:"
        return
    examples = dict(report.outcomes.examples)
    if completed := examples.pop("completed", None):
        yield f"{eventlib} saga {shlex.quote(completed)}{log}", "An order that was completed, event by event:"
    for reason in (*STORIES, *examples):
        if order_id := examples.pop(reason, None):
            why = STORIES.get(reason, f"One that was cancelled ({reason}):")
            yield f"{eventlib} saga {shlex.quote(order_id)}{log}", why
    if report.waiting:
        yield f"{eventlib} parked list{log}", "What waits for a person, and why:"
    yield f"{eventlib} topics{log}", "What is on the log:"
    yield f"{eventlib} graph", "The services, and the events between them:"
    yield f"{eventlib} console{log}", f"All of it in a browser: run this, then open {CONSOLE}"
    if Path("Makefile").exists() and find_spec("pyspark") is None:
        yield "make setup", "Spark's tables and report, the simulator, a Kafka broker: this adds what they need:"


def _table(title: str, beside: str) -> Table:
    heading = Text(title, style="bold").append(f"  {beside}" if beside else "", style="dim")
    table = Table(title=heading, title_justify="left", box=None, show_header=False, pad_edge=False)
    table.add_column(min_width=34, no_wrap=True)
    table.add_column(justify="right", min_width=8)
    table.add_column(style="dim")
    return table


def _eventlib() -> str:
    """Return how to call the command here: by its name when the shell finds it, else by its path."""
    if shutil.which("eventlib"):
        return "eventlib"
    beside = Path(sys.executable).with_name("eventlib")
    return os.path.relpath(beside) if beside.exists() else "eventlib"


def _amount(cents: int, currency: str) -> str:
    return f"{Decimal(cents).scaleb(-decimals_of(currency)):,f}"


def _share(count: int, total: int) -> str:
    return f"{count / total:.1%}" if total else ""


def _duration(milliseconds: int | None) -> str:
    if milliseconds is None:
        return "-"
    return f"{milliseconds:,} ms" if milliseconds < 10 * _SECOND_MS else f"{milliseconds / _SECOND_MS:,.1f} s"


def _bold(text: str) -> Text:
    return Text(text, style="bold")


_MEANING = {
    Reason.MALFORMED: "not an order in the agreed shape",
    Reason.CREDIT_NOTE: "takes an order back",
    Reason.QUANTITY: "a line with less than one unit",
    Reason.UNIT_PRICE: "below 0, or more than two decimals",
    Reason.NOTHING_TO_PAY: "the total is 0",
    Reason.CONFLICT: "the log has another order under this id",
}
