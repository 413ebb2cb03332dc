"""`eventlib rerun`: a service's past run again beside it, and what differs."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from datetime import datetime

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.text import Text

from eventlib.cli import output
from eventlib.cli.opened import look
from eventlib.cli.options import Place
from eventlib.errors import ContractError
from eventlib.eventlog import EventLog
from eventlib.inspection.tail import start_of
from eventlib.replay.changes import ABSENT, Change
from eventlib.rerun.difference import Difference, EventDifference, StateDifference, Waiting, difference
from eventlib.rerun.known import KnownRerun, described, drop, reruns
from eventlib.rerun.running import Wanted, run_again
from eventlib.settings import runtime_config
from eventlib.store.open import open_stores
from eventlib.times import from_ms, to_ms

_SIGNS = {"missing": "-", "extra": "+", "other": "~"}


def until_ms(text: str | None) -> int:
    """Return the time up to which a rerun goes (ms); 0: to the service's end. Raises: ContractError."""
    start = None if text is None else start_of(text)
    if start is None:
        return 0
    if not isinstance(start, datetime):
        raise ContractError(f"--until {text}: write a time (UTC) such as 2026-01-31T12:00:00Z")
    return to_ms(start)


def print_rerun(place: Place, service: str, name: str, wanted: Wanted, *, limit: int, as_json: bool) -> None:
    """Run a service's past again under a name, or go on with that, and print what differs."""
    stores = open_stores(place.url, runtime_config().state_dir)
    console = Console(stderr=True)
    columns = TextColumn(f"{service} again"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        bar = progress.add_task("")

        async def run(log: EventLog) -> Difference:
            old = log.choreography.service(service)
            told = lambda done, of: progress.update(bar, completed=done, total=of)  # noqa: E731  one line, used once
            await run_again(log, stores, old, name, wanted, told)
            return await difference(log, old, old.under(name), limit)

        try:
            found = look(place, run)
        finally:
            stores.close()
    if as_json:
        output.print_json(_json(service, name, found))
        return
    _print(service, name, found, limit)
    print()
    print(f"Throw it away:         eventlib rerun {service} --drop {name}")


def print_reruns(place: Place, *, as_json: bool) -> None:
    """Print a line for each rerun on the log."""
    found = look(place, reruns)
    if as_json:
        output.print_json({**asdict(each), "status": _status(each)} for each in found)
        return
    console = output.terminal()
    if not found:
        console.print("There is no rerun on this log.")
        return
    shown = output.table(
        "rerun", "of", "begun (UTC)", "code", "done", "status", "why", right=["done"], whole=["begun (UTC)"]
    )
    for each in found:
        done = f"{each.handled / each.of:.0%}" if each.of else "-"
        begun = output.readable(from_ms(each.note.begun_ms))
        cells = [each.name, each.note.service, begun, each.note.code_version, done, _status(each), each.note.why]
        shown.add_row(*map(Text, map(output.printable, cells)))
    console.print(shown)


def _status(known: KnownRerun) -> str:
    if not known.switched:
        return "beside its service"
    return (
        "its service's states" if known.switched == known.tasks else f"switched {known.switched} of {known.tasks} tasks"
    )


def drop_rerun(place: Place, service: str, name: str, *, as_json: bool) -> None:
    """Throw a rerun away."""

    async def dropped(log: EventLog) -> None:
        await described(log, log.choreography.service(service), name)
        await drop(log, log.choreography.service(service), name)

    look(place, dropped)
    if as_json:
        output.print_json([{"service": service, "rerun": name, "dropped": True}])
    else:
        print(f"{name} is gone, with all that it had said.")


def _json(service: str, name: str, found: Difference) -> Iterable[dict[str, object]]:
    yield {
        "service": service,
        "rerun": name,
        "same": found.is_none,
        "deciders": [asdict(each) for each in found.deciders],
        "requested": len(found.requested),
        "parked": len(found.parked),
        "not_yet": found.not_yet,
    }
    for event in found.events:
        facts = {**asdict(event), "at": output.iso_ms(event.at_ms), "changes": _changes_json(event.changes)}
        yield {"difference": "event", **facts}
    for state in found.states:
        yield {"difference": "state", **asdict(state), "changes": _changes_json(state.changes)}
    for kind, waiting in (("requested", found.requested), ("parked", found.parked)):
        for each in waiting:
            yield {"difference": kind, **asdict(each)}


def _changes_json(changes: Iterable[Change]) -> list[dict[str, object]]:
    found = list[dict[str, object]]()
    for change in changes:
        sides = {"before": change.before, "after": change.after}
        found.append({"field": change.path, **{side: value for side, value in sides.items() if value is not ABSENT}})
    return found


def _print(service: str, name: str, found: Difference, limit: int) -> None:
    console = output.terminal()
    numbers = ["keys", "states differ", "said alike", "not said", "said in addition", "said otherwise"]
    shown = output.table("decider", *numbers, right=numbers)
    for each in found.deciders:
        counts = each.keys, each.states, each.alike, each.missing, each.extra, each.other
        shown.add_row(each.decider, *(f"{count:,}" for count in counts), style="bold" if each.differs else None)
    console.print(shown)
    if found.is_none:
        console.print(f"{name} says and knows what {service} does: nothing differs.")
    _print_events(console, found.events)
    _print_states(console, found.states)
    _print_waiting(console, f"Requests that only {name} makes; they were not run", found.requested, limit)
    _print_waiting(console, f"Keys that only {name} cannot handle", found.parked, limit)
    if found.not_yet:
        what = output.counted(found.not_yet, "key")
        console.print(f"{service} has changed {what} since; run this again to compare them, too.", style="dim")


def _print_events(console: Console, events: Iterable[EventDifference]) -> None:
    for number, each in enumerate(events):
        if not number:
            console.print(
                "\nEvents, the first ones ([dim]-[/dim] not said, [dim]+[/dim] in addition, [dim]~[/dim] otherwise):"
            )
        types = " → ".join(dict.fromkeys(filter(None, (each.before, each.after))))
        line = Text(f"{_SIGNS[each.kind]} ").append(f"{each.decider} {output.printable(each.key)}", "bold")
        line.append(f"  {types}  ").append(output.iso_ms(each.at_ms), "dim")
        console.print(line)
        if each.kind == "other":
            _print_changes(console, each.changes)


def _print_states(console: Console, states: Iterable[StateDifference]) -> None:
    for number, each in enumerate(states):
        if not number:
            console.print("\nStates, the first ones:")
        console.print(Text("~ ").append(f"{each.decider} {output.printable(each.key)}", "bold"))
        if each.why:
            console.print(Text(f"    {each.why}", "red"))
        _print_changes(console, each.changes)


def _print_changes(console: Console, changes: Iterable[Change]) -> None:
    for change in changes:
        sides = ["-" if side is ABSENT else output.printable(str(side)) for side in (change.before, change.after)]
        console.print(Text(f"    {change.path}: {sides[0]} → {sides[1]}", "dim"))


def _print_waiting(console: Console, title: str, waiting: Sequence[Waiting], limit: int) -> None:
    if waiting:
        console.print(f"\n{title} ({len(waiting):,}):")
    for each in waiting[:limit]:
        line = Text("  ").append(f"{each.decider} {output.printable(each.key)}", "bold").append(f"  {each.request}")
        console.print(line.append(output.printable(each.reason), "dim"))
