"""`eventlib rerun`: a service's past run again beside it, and what differs."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.text import Text

from eventlib.cli import output
from eventlib.cli.opened import look
from eventlib.cli.options import LogOptions
from eventlib.cli.person import agree
from eventlib.config.settings import runtime_config
from eventlib.eventlog import EventLog
from eventlib.operations.reprocessing.comparison import (
    Difference,
    EventDifference,
    StateDifference,
    Waiting,
    difference,
)
from eventlib.operations.reprocessing.cutover import Switched, switch
from eventlib.operations.reprocessing.metadata import KnownRerun, RerunSpec, described, drop, name_of_reset, reruns
from eventlib.operations.reprocessing.running import rerunning
from eventlib.replay.comparison import ABSENT, Change
from eventlib.state.open import open_stores
from eventlib.values import from_ms, time_of, to_ms

_SIGNS = {"missing": "-", "extra": "+", "other": "~"}


def ms_of(text: str | None) -> int:
    """Return a time in the service's past (ms); 0 for none. Raises: ContractError for what is no time."""
    return 0 if text is None else to_ms(time_of(text))


def print_rerun(place: LogOptions, service: str, name: str, wanted: RerunSpec, *, limit: int, as_json: bool) -> None:
    """Run a service's past again under a name, or go on with that, and print what differs."""
    stores = open_stores(place.url, runtime_config().state_dir)
    console = output.terminal(stderr=True)
    columns = TextColumn(f"{service} again"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        bar = progress.add_task("")

        async def run(log: EventLog) -> tuple[Difference, bool]:
            old = log.choreography.service(service)
            told = lambda done, of: progress.update(bar, completed=done, total=of)  # noqa: E731  one line, used once
            async with rerunning(log, stores, old, name, wanted, told) as again:
                return await difference(again, limit), bool(again.followers)

        try:
            found, is_open = look(place, run)
        finally:
            stores.close()
    if as_json:
        output.print_json(_json(service, name, found))
        return
    _print(service, name, found, limit)
    print()
    if not is_open:
        print(f"{service} has taken over what {name} knows: that is compared no more.")
        return
    print(f"Make it the service's: eventlib rerun {service} --switch {name} --reason TEXT")
    print(f"Throw it away:         eventlib rerun {service} --drop {name}")


@dataclass(frozen=True, slots=True)
class Consent:
    """What somebody says to a switch: why, whether effects run that only the rerun has asked for, and a yes before.

    With `dry_run` it is only shown what would be.
    """

    why: str
    runs_effects: bool = False
    yes: bool = False
    dry_run: bool = False


def print_switch(place: LogOptions, service: str, name: str, consent: Consent, *, limit: int, as_json: bool) -> None:
    """Let a service take over a rerun's states, after showing what that means."""

    async def switched(log: EventLog) -> Switched | None:
        note = await described(log, log.choreography.service(service), name)
        wanted = RerunSpec(consent.why, note.since_ms, note.until_ms)
        return await _switched(log, service, name, wanted, consent, None if as_json else limit)

    _print_switched(look(place, switched), service, name, consent, as_json=as_json)


def print_way_back(
    place: LogOptions, service: str, since_ms: int, consent: Consent, *, limit: int, as_json: bool
) -> None:
    """Let a service do again all that it has done since a time (ms; 0: ever), after showing what that means."""
    name = ""

    async def gone_back(log: EventLog) -> Switched | None:
        nonlocal name
        old = log.choreography.service(service)
        name = await name_of_reset(log, old, since_ms)
        wanted = RerunSpec(consent.why, since_ms)
        done = await _switched(log, service, name, wanted, consent, None if as_json else limit)
        if done is None:
            await drop(log, old, name)
        return done

    _print_switched(look(place, gone_back), service, name, consent, as_json=as_json)


async def _switched(
    log: EventLog, service: str, name: str, wanted: RerunSpec, consent: Consent, shown: int | None
) -> Switched | None:
    """Switch, after showing so many differences in full; None when it was only to be shown."""
    old = log.choreography.service(service)
    stores = open_stores(log.port.url, runtime_config().state_dir)
    try:
        async with rerunning(log, stores, old, name, wanted) as again:
            if shown is not None:
                found = await difference(again, shown)
                _print(service, name, found, shown)
                _print_consequences(service, name, found, runs_effects=consent.runs_effects)
            if consent.dry_run:
                return None
            agree(f"Shall {service} take over what {name} knows?", yes=consent.yes)
            return await switch(again, consent.why, runs_effects=consent.runs_effects)
    finally:
        stores.close()


def _print_switched(done: Switched | None, service: str, name: str, consent: Consent, *, as_json: bool) -> None:
    if done is None:
        print(f"Nothing was changed: this is what a reset of {service} would do.")
        return
    if as_json:
        output.print_json([{"service": service, "rerun": name, **asdict(done), "why": consent.why}])
        return
    print(f"Done, and recorded, in {output.counted(done.tasks, 'task')}: {output.counted(done.states, 'key')} changed,")
    print(f"{output.counted(done.said, 'event')} said now, {output.counted(done.unsaid, 'event')} could not be unsaid.")
    if done.requested and not consent.runs_effects:
        print(f"{output.counted(done.requested, 'effect')} not run yet: see `eventlib parked list`, and retry them.")
    print(f"If {service} runs other code than this, start it anew now.")


def _print_consequences(service: str, name: str, found: Difference, *, runs_effects: bool) -> None:
    new = sum(each.extra for each in found.deciders)
    old = sum(each.missing for each in found.deciders)
    other = sum(each.other for each in found.deciders)
    if new or other:
        print(f"\nWhat only {name} says, {service} says then. ", end="")
    if old or other:
        print(f"What only {service} has said stays on the log: what others did about it is for you to make good.")
    if found.requested:
        count = output.counted(len(found.requested), "effect")
        print(f"{count} that only {name} asks for {'run' if runs_effects else 'wait for you, parked'}.")
    print()


def print_reruns(place: LogOptions, *, as_json: bool) -> None:
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
        is_followed = each.of and each.switched < each.tasks
        done = f"{each.handled / each.of:.0%}" if is_followed else "-"
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


def drop_rerun(place: LogOptions, service: str, name: str, *, as_json: bool) -> None:
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
