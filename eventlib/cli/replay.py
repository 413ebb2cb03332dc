"""`eventlib replay`: today's code on old days."""

import asyncio
from dataclasses import asdict, dataclass

from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from eventlib.cli import output
from eventlib.cli.differing import difference_lines
from eventlib.cli.opened import refuse_missing
from eventlib.cli.options import Place
from eventlib.cli.project import load_choreography
from eventlib.opening import open_log
from eventlib.replay import Part, Report, replay
from eventlib.replay.parts import cores, in_parts
from eventlib.replay.report import Difference, HandlerReport, merged
from eventlib.runtime import collect_garbage_seldom
from eventlib.times import time_of

_NAMED = 5
"""How many orders of a handler are named."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is to be compared: services (none: all), from when on, and how many differences are shown."""

    services: tuple[str, ...]
    since: str | None
    limit: int


def print_replay(place: Place, wanted: Wanted, *, as_json: bool) -> int:
    """Print what today's code would have done otherwise, and return the exit code: 1 if anything."""
    report = _replayed(place, wanted)
    if as_json:
        output.print_json([_json(report)])
    else:
        _print(report)
    return 0 if report.same else 1


def _replayed(place: Place, wanted: Wanted) -> Report:
    choreography = load_choreography(place.app)
    refuse_missing(place.url)
    since = None if wanted.since is None else time_of(wanted.since)
    services = wanted.services or None
    for name in wanted.services:
        choreography.service(name)

    async def opened(part: Part) -> Report:
        async with open_log(place.url, choreography, read_only=True) as log:
            return await replay(log, services=services, since=since, limit=wanted.limit, part=part)

    collect_garbage_seldom()
    return merged(in_parts(lambda part: asyncio.run(opened(part)), cores()), wanted.limit)


def _json(report: Report) -> dict[str, object]:
    return {
        "events": report.events,
        "transactions": report.transactions,
        "decisions": report.decisions,
        "differences": report.differences,
        "orders": report.stories,
        "handlers": [asdict(handler) for handler in report.handlers],
        "first": [{**asdict(each), "at": output.iso_ms(each.at_ms)} for each in report.first],
        "unknown": report.unknown,
        "notes": report.notes,
    }


def _print(report: Report) -> None:
    console = output.terminal()
    for note in report.notes:
        console.print(Text(f"Note: {note}.", style="yellow"))
    scope = f"{report.decisions:,} decisions on {report.events:,} events"
    if report.same:
        console.print(f"Nothing differs: {scope} are what they were.")
        return
    if report.differences:
        console.print(Text(f"{report.differences:,} of {scope} differ.", style="bold"))
        console.print()
        _print_handlers(console, report.differing)
    for difference in report.first:
        console.print()
        _print_difference(console, difference)
    if report.unknown:
        console.print()
        console.print(Text(f"{len(report.unknown):,} events that no journal knows of:", style="bold"))
        for each in report.unknown[:_NAMED]:
            console.print(Text(f"  {output.printable(each)}"))


def _print_handlers(console: Console, handlers: tuple[HandlerReport, ...]) -> None:
    table = output.table("handler", "decisions", "differ", "orders", "such as", right=("decisions", "differ", "orders"))
    for handler in handlers:
        such_as = ", ".join(handler.stories[:_NAMED]) + (", …" if len(handler.stories) > _NAMED else "")
        counts = (handler.decisions, handler.differences, len(handler.stories))
        table.add_row(Text(handler.handler), *(f"{count:,}" for count in counts), Text(output.printable(such_as)))
    console.print(table)


def _print_difference(console: Console, difference: Difference) -> None:
    given = difference.input
    what = f"on {given.type} {given.id[:8]}…" if given.topic else f"when {given.type} passed"
    head = Text.assemble((difference.story, "bold"), f"  {difference.handler} ", (what, "dim"))
    head.append(f", {output.iso_ms(difference.at_ms)}", style="dim")
    console.print(head)
    for sign, line in difference_lines(difference):
        style = {"-": "red", "+": "green"}.get(sign, "")
        console.print(Padding(Text(f"{sign} {output.printable(line)}", style=style), (0, 0, 0, 2), expand=False))
