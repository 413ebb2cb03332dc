"""A replay's report, as text and as JSON."""

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from difflib import SequenceMatcher

from pydantic_core import to_json
from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from eventlib.cli._common import output
from eventlib.replay import PreflightReport, Report
from eventlib.replay.report import ComparedEvent, Difference, HandlerReport
from eventlib.replay.stuck_sagas import InFlightStatus

_NAMED = 5
"""How many sagas of a handler are named."""


def print_report(report: Report, *, as_json: bool) -> None:
    """Print what today's code would emit differently."""
    if as_json:
        output.print_json([report_json(report)])
        return
    console = output.terminal()
    _print_notes(console, report)
    scope = f"{report.decisions:,} decisions on {report.events:,} events"
    if report.same:
        console.print(f"Nothing differs: {scope} are unchanged.")
    elif report.differences:
        console.print(Text(f"{report.differences:,} of {scope} differ.", style="bold"))
    _print_differences(console, report)


def print_gate(found: PreflightReport, *, as_json: bool) -> None:
    """Print what today's code would do to the in-flight sagas."""
    if as_json:
        output.print_json([{**asdict(found.standing), **report_json(found.report)}])
        return
    console, standing, report = output.terminal(), found.standing, found.report
    _print_notes(console, report)
    if not standing.in_flight and found.is_open:
        console.print("No saga is in flight, and today's code can read every state.")
        return
    scope = f"{report.decisions:,} decisions about {standing.in_flight:,} sagas in flight"
    if found.is_open:
        console.print(f"Today's code can take over: {scope} are unchanged, and each can continue.")
        return
    counts = f"{len(standing.stranded):,} would be stuck, {len(report.sagas):,} differ"
    console.print(Text(f"{standing.in_flight:,} sagas are in flight: {counts}.", style="bold"))
    _print_standing(console, standing)
    _print_differences(console, report)


def _print_standing(console: Console, standing: InFlightStatus) -> None:
    rows = [(each.saga, each.why) for each in standing.stranded]
    rows += [
        (f"{each.decider} {each.key}", f"today's code cannot read the state: {each.why}")
        for each in standing.unreadable
    ]
    if rows:
        console.print()
        table = output.table("saga", "why it would be stuck", whole=["saga"])
        for name, why in rows:
            table.add_row(Text(output.printable(name), style="bold"), Text(output.printable(why)))
        console.print(table)


def _print_differences(console: Console, report: Report) -> None:
    if report.differences:
        console.print()
        _print_handlers(console, report.differing)
    for difference in report.first:
        console.print()
        _print_difference(console, difference)
    if report.unknown:
        console.print()
        console.print(Text(f"{len(report.unknown):,} events that no journal contains:", style="bold"))
        for each in report.unknown[:_NAMED]:
            console.print(Text(f"  {output.printable(each)}"))


def _print_notes(console: Console, report: Report) -> None:
    for each in report.damaged:
        console.print(Text(f"Damage: {output.printable(each)}; what depends on it is not compared.", style="red"))
    for note in report.notes:
        console.print(Text(f"Note: {note}.", style="yellow"))


def _print_handlers(console: Console, handlers: tuple[HandlerReport, ...]) -> None:
    table = output.table("handler", "decisions", "differ", "sagas", "such as", right=("decisions", "differ", "sagas"))
    for handler in handlers:
        such_as = ", ".join(handler.sagas[:_NAMED]) + (", …" if len(handler.sagas) > _NAMED else "")
        counts = (handler.decisions, handler.differences, len(handler.sagas))
        table.add_row(Text(handler.handler), *(f"{count:,}" for count in counts), Text(output.printable(such_as)))
    console.print(table)


def _print_difference(console: Console, difference: Difference) -> None:
    given = difference.input
    what = f"on {given.type} {given.id[:8]}…" if given.topic else f"when {given.type} had passed"
    head = Text.assemble((output.printable(difference.saga), "bold"), f"  {difference.handler} ")
    head.append(f"{what}, {output.iso_ms(difference.at_ms)}", style="dim")
    console.print(head)
    for sign, line in difference_lines(difference):
        style = {"-": "red", "+": "green"}.get(sign, "")
        console.print(Padding(Text(f"{sign} {output.printable(line)}", style=style), (0, 0, 0, 2), expand=False))


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
        "first": [{**asdict(each), "at": output.iso_ms(each.at_ms)} for each in report.first],
        "unknown": report.unknown,
        "notes": report.notes,
        "damaged": report.damaged,
    }


_MOST = 24


Line = tuple[str, str]
"""A sign and a text: - was emitted, + would be emitted, and a blank for what is unchanged."""


def difference_lines(difference: Difference) -> list[Line]:
    """Return the lines of a difference; unchanged events are left out."""
    lines = [(" ", difference.why)] if difference.why else []
    lines += _lines(difference)
    if len(lines) > _MOST:
        lines = [*lines[:_MOST], (" ", f"… and {len(lines) - _MOST:,} lines more")]
    return lines


def _lines(difference: Difference) -> Iterator[Line]:
    then, now = difference.then, difference.now
    if not then and now:
        yield "-", "(nothing was emitted)"
    if not now and then:
        for each in then:
            yield "-", _short(each)
        yield "+", "(nothing is emitted)"
        return
    matcher = SequenceMatcher(None, [_name(each) for each in then], [_name(each) for each in now], autojunk=False)
    for tag, i1, i2, j1, j2 in matcher.get_opcodes():
        if tag == "equal":
            for before, after in zip(then[i1:i2], now[j1:j2], strict=True):
                yield from _fields(before, after)
        else:
            yield from (("-", _short(each)) for each in then[i1:i2])
            yield from (("+", _short(each)) for each in now[j1:j2])


def _name(compared_event: ComparedEvent) -> tuple[str, str]:
    return compared_event.type, compared_event.key


def _fields(before: ComparedEvent, after: ComparedEvent) -> Iterator[Line]:
    old = {"(topic)": before.topic, **dict(_flat("", before.facts))}
    new = {"(topic)": after.topic, **dict(_flat("", after.facts))}
    names = [name for name in {**old, **new} if old.get(name, _ABSENT) != new.get(name, _ABSENT)]
    if before.error:
        yield " ", f"{before.type} {before.key} as it was emitted: {before.error}"
    elif names:
        yield " ", f"{before.type} {before.key}"
    for name in [] if before.error else names:
        if name in old:
            yield "-", f"  {name}: {_value(old[name])}"
        if name in new:
            yield "+", f"  {name}: {_value(new[name])}"


def _flat(path: str, value: object) -> Iterator[tuple[str, object]]:
    """Yield the leaves of a value with their paths: `lines[0].quantity`."""
    if isinstance(value, Mapping) and value:
        for name, each in value.items():
            yield from _flat(f"{path}.{name}" if path else str(name), each)
    elif isinstance(value, list) and value:
        for index, each in enumerate(value):
            yield from _flat(f"{path}[{index}]", each)
    else:
        yield path, value


def _short(compared_event: ComparedEvent) -> str:
    facts = " ".join(
        f"{name}={_value(value)}" for name, value in _flat("", compared_event.facts) if value != compared_event.key
    )
    return f"{compared_event.type} {compared_event.key} {compared_event.error or facts}".rstrip()


def _value(value: object) -> str:
    return value if isinstance(value, str) and value else to_json(value).decode()


_ABSENT = object()
