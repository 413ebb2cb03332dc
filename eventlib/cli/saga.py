"""`eventlib saga`: one saga across all services, as a timeline and a tree, or followed as it happens."""

from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import asdict
from datetime import datetime
from typing import Annotated, NamedTuple

import typer
from rich.text import Text

from eventlib.cli._common import output
from eventlib.cli._common.names import open_sagas
from eventlib.cli._common.options import AtTime, JsonOption, LogOptions, PersonalLog, argument, flag, run_on_log
from eventlib.cli._common.paused import paused_text
from eventlib.cli._common.saga_status import snapshots_json, snapshots_table
from eventlib.cli.saga_timeline import (
    MARKS,
    STYLES,
    event_json,
    headline,
    location_of,
    print_timeline,
    print_tree,
    saga_json,
)
from eventlib.eventlog import EventLog
from eventlib.model.record import key_text
from eventlib.model.saga import Saga, SagaEvent
from eventlib.operations.as_json import parking_json, paused_json
from eventlib.queries.parked import Parking, parked_of, parkings
from eventlib.queries.pauses import Paused
from eventlib.queries.sagas import find_saga, follow_saga
from eventlib.replay.amendments import Amendment, amendments_of
from eventlib.replay.point_in_time import SagaSnapshot, snapshots_of_saga
from eventlib.values import iso, iso_ms


def saga(  # noqa: PLR0913, PLR0917  one argument for each option
    log_options: PersonalLog,
    key: Annotated[str, argument("KEY", "An order's id, or another event's key.", autocompletion=open_sagas)],
    tree: Annotated[bool, flag("--tree", "Only the tree: what caused each event.")] = False,
    unfold: Annotated[bool, flag("--all -a", "Print a line for each event; do not fold equal types.")] = False,
    at: AtTime = None,
    follow: Annotated[bool, flag("--follow -f", "Print each event as it arrives, until the saga has ended.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Show one saga across all services, and what caused each event.

    Marks: ✗ a refusal or cancellation, ↩ compensation (what follows from
    that), ■ the end.

    [dim]Examples:[/dim]
      eventlib saga 536365
      eventlib saga 536365 --tree --all
      eventlib saga 536365 --at 2026-01-31T12:00:00.250Z
      eventlib saga 536365 --follow
      eventlib saga 536365 --json | jq -r '.events[] | [.after_ms, .type] | @tsv'
    """
    if follow and (at is not None or tree):
        raise typer.BadParameter("prints new events, so it excludes --at and --tree", param_hint="--follow")
    if follow:
        run_on_log(log_options, lambda log: _follow(log, key, as_json=as_json))
    else:
        print_saga(log_options, key, at, only_tree=tree, fold=not unfold, as_json=as_json)


def print_saga(
    log_options: LogOptions, key: str, at: datetime | None, *, only_tree: bool, fold: bool, as_json: bool
) -> None:
    """Print a saga's timeline and tree, or all of it as one JSON object; as of a time if one is given."""
    read = run_on_log(log_options, lambda log: _read(log, key, at))
    found, snapshots = read.saga, read.snapshots
    if as_json:
        output.print_json([_json(read, at)])
        return
    if not only_tree:
        output.say(headline(found, at))
        for amendment in read.amended:
            output.say(_amended(amendment))
    for parking in read.parked:
        output.say(_waits(parking))
    if not only_tree:
        for paused in read.paused:
            output.say(Text.assemble(("waits  ", "bold yellow"), output.printable(paused_text(paused))))
        output.say()
        print_timeline(found, fold=fold)
        output.say()
    print_tree(found, fold=fold, with_facts=only_tree)
    if snapshots:
        output.say()
        output.terminal().print(snapshots_table(snapshots))
    for doubt in {each.doubt for each in snapshots}:
        output.warn(doubt)


class _Read(NamedTuple):
    """A saga, with its parked inputs and the operators' changes; or with its states as of a time."""

    saga: Saga
    parked: Sequence[Parking] = ()
    amended: Sequence[Amendment] = ()
    snapshots: Sequence[SagaSnapshot] = ()
    paused: Sequence[Paused] = ()


async def saga_as_json(log: EventLog, key: str, at: datetime | None = None) -> dict[str, object]:
    """Return a saga as JSON: its events, what is parked or was amended; or, as of a time, its states. Raises: ContractError."""
    return _json(await _read(log, key, at), at)


def _json(read: _Read, at: datetime | None) -> dict[str, object]:
    then = {} if at is None else {"at": iso(at), "states": snapshots_json(read.snapshots)}
    beside = {
        "parked": [parking_json(each) for each in read.parked],
        "paused": [paused_json(each) for each in read.paused],
        "amended": [_amendment_json(each) for each in read.amended],
    }
    return {**saga_json(read.saga), **beside, **then}


async def _read(log: EventLog, key: str, at: datetime | None) -> _Read:
    saga = await find_saga(log, key, at)
    if at is not None:
        return _Read(saga, snapshots=await snapshots_of_saga(log, saga, at))
    waiting = parked_of(saga, await parkings(log, {key_text(event.record) for event in saga.events}))
    paused = list[Paused]()
    if not saga.ended:
        from eventlib.operations.pausing import holding

        paused = await holding(log, saga)
    return _Read(saga, waiting, await amendments_of(log, saga), paused=paused)


def _waits(parking: Parking) -> Text:
    what = parking.effect or parking.decider
    because = f"{what} is parked since {output.readable(parking.since)}: {output.printable(parking.reason)}"
    return Text.assemble(("waits  ", "bold red"), because, (f"\n       {output.printable(parking.command)}", "dim"))


_DONE = {"edit": "edited  ", "discard": "given up"}


_NOT_DONE = {"asked": ", not handled yet", "refused": ", not done: it was too late"}


def _amended(amendment: Amendment) -> Text:
    about = f"{amendment.event_type} for {amendment.decider}"
    reason = output.printable(amendment.reason) or "no reason given"
    why = f", by {output.printable(amendment.by)} at {output.readable(amendment.at)}: {reason}"
    return Text.assemble(
        (_DONE[amendment.kind], "bold yellow"), f"  {about}{_NOT_DONE.get(amendment.outcome, '')}", why
    )


def _amendment_json(amendment: Amendment) -> dict[str, object]:
    return {**asdict(amendment), "at": iso(amendment.at)}


async def _follow(log: EventLog, key: str, *, as_json: bool) -> None:
    shown = set[tuple[str, int, int]]()
    async with aclosing(follow_saga(log, key)) as growing:
        async for saga in growing:
            if not saga.events and not as_json:
                output.say(f"{key} has no event yet; waiting for the first one.", "dim")
            new = [i for i, event in enumerate(saga.events) if location_of(event) not in shown]
            shown |= {location_of(event) for event in saga.events}
            if as_json:
                output.print_json(event_json(saga.events[i]) for i in new)
            else:
                _print(saga, new)
            if saga.ended:
                break
    if not as_json:
        output.say()
        output.say(headline(saga))


def _print(saga: Saga, new: list[int]) -> None:
    console = output.terminal()
    facts = saga.news()
    for i in new:
        line = _line(saga.events[i], output.facts_text(facts[i]))
        line.no_wrap, line.overflow = True, "ellipsis" if console.is_terminal else "ignore"
        console.print(line, soft_wrap=not console.is_terminal)


def _line(event: SagaEvent, facts: str) -> Text:
    mark = "■" if event.ends else MARKS[event.role]
    at = iso_ms(event.record.timestamp_ms)[11:23]
    line = Text(f"{at} {f'+{event.after_ms:,}':>8}  {event.service:<10} {mark} ")
    line.append(f"{event.type:<20}", style=f"bold {STYLES[event.role]}".strip())
    line.append(
        f" {output.printable(event.error)}" if event.error else f" {facts}", style="red" if event.error else "dim"
    )
    line.rstrip()
    return line
