"""A replay's report, as text and as JSON."""

from collections.abc import Sequence
from dataclasses import asdict

from rich.padding import Padding
from rich.text import Text

from eventlib.cli._common import output
from eventlib.replay import PreflightReport, Report
from eventlib.replay.difference_lines import Line, difference_lines
from eventlib.replay.report import Difference, HandlerReport
from eventlib.replay.stuck_sagas import InFlightStatus
from eventlib.values import iso_ms

_NAMED = 5
"""How many sagas of a handler are named."""


def print_report(report: Report, *, as_json: bool) -> None:
    """Print what today's code would emit differently."""
    if as_json:
        output.print_json([report_json(report)])
        return
    _print_notes(report.damaged, report.notes)
    scope = f"{report.decisions:,} decisions on {report.events:,} events"
    if report.same:
        output.say(f"Nothing differs: {scope} are unchanged.")
    elif report.differences:
        output.say(f"{report.differences:,} of {scope} differ.", "bold")
    _print_differences(report)


def print_gate(found: PreflightReport, *, as_json: bool) -> None:
    """Print what today's code would do to the in-flight sagas."""
    if as_json:
        output.print_json([{**asdict(found.standing), **report_json(found.report), "damaged": found.damaged}])
        return
    standing, report = found.standing, found.report
    _print_notes(found.damaged, report.notes)
    if not standing.in_flight and found.is_open:
        output.say("No saga is in flight, and today's code can read every state.")
        return
    scope = f"{report.decisions:,} decisions about {standing.in_flight:,} sagas in flight"
    if found.is_open:
        output.say(f"Today's code can take over: {scope} are unchanged, and each can continue.")
        return
    output.say(_counts(found), "bold")
    _print_standing(standing)
    _print_differences(report)


def _counts(found: PreflightReport) -> str:
    standing, differ = found.standing, f"{len(found.report.sagas):,} differ"
    stuck = (
        f"{len(standing.doubtful):,} may be stuck" if standing.damaged else f"{len(standing.stranded):,} would be stuck"
    )
    if found.damaged:
        return f"{standing.in_flight:,} sagas are known to be in flight: {stuck}, {differ}. What depends on the damage is not known."
    return f"{standing.in_flight:,} sagas are in flight: {stuck}, {differ}."


def _print_standing(standing: InFlightStatus) -> None:
    rows = [(each.saga, each.why) for each in standing.stranded]
    rows += [(each.saga, f"perhaps, since there is damage: {each.why}") for each in standing.doubtful]
    rows += [
        (f"{each.decider} {each.key}", f"today's code cannot read the state: {each.why}")
        for each in standing.unreadable
    ]
    if rows:
        output.say()
        output.print_table(["saga", "why it would be stuck"], rows)


def _print_differences(report: Report) -> None:
    if report.differences:
        output.say()
        _print_handlers(report.differing)
    for difference in report.first:
        output.say()
        _print_difference(difference)
    if report.unknown:
        output.say()
        output.say(f"{len(report.unknown):,} events that no journal contains:", "bold")
        for each in report.unknown[:_NAMED]:
            output.say(f"  {each}")


def _print_notes(damaged: Sequence[str], notes: Sequence[str]) -> None:
    for each in damaged:
        output.say(f"Damage: {each}; what depends on it is not compared.", "red")
    for note in notes:
        output.say(f"Note: {note}.", "yellow")


def _print_handlers(handlers: tuple[HandlerReport, ...]) -> None:
    rows = list[output.Row]()
    for handler in handlers:
        such_as = ", ".join(handler.sagas[:_NAMED]) + (", …" if len(handler.sagas) > _NAMED else "")
        rows.append((handler.handler, handler.decisions, handler.differences, len(handler.sagas), such_as))
    output.print_table(["handler", "decisions", "differ", "sagas", "such as"], rows)


def _print_difference(difference: Difference) -> None:
    given = difference.input
    what = f"on {given.type} {given.id[:8]}…" if given.topic else f"when {given.type} had passed"
    head = Text.assemble((output.printable(difference.saga), "bold"), f"  {difference.handler} ")
    head.append(f"{what}, {iso_ms(difference.at_ms)}", style="dim")
    output.say(head)
    print_lines(difference_lines(difference.then, difference.now, difference.why))


def print_lines(lines: Sequence[Line]) -> None:
    """Print the lines of a difference."""
    for sign, line in lines:
        style = {"-": "red", "+": "green"}.get(sign, "")
        output.terminal().print(
            Padding(Text(f"{sign} {output.printable(line)}", style=style), (0, 0, 0, 2), expand=False)
        )


def report_json(report: Report) -> dict[str, object]:
    """Return a report as JSON."""
    return {
        "events": report.events,
        "transactions": report.transactions,
        "decisions": report.decisions,
        "differences": report.differences,
        "sagas": report.sagas,
        "silent": report.silent,
        "handlers": [asdict(handler) for handler in report.handlers],
        "first": [{**asdict(each), "at": iso_ms(each.at_ms)} for each in report.first],
        "unknown": report.unknown,
        "notes": report.notes,
        "damaged": report.damaged,
    }
