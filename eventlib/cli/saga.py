"""`eventlib saga`: how one saga went, over all services."""

from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime
from typing import NamedTuple

from rich.console import Console
from rich.text import Text
from rich.tree import Tree

from eventlib.cli import output
from eventlib.cli.folding import Fold, branches, rows
from eventlib.cli.opened import look
from eventlib.cli.options import LogOptions
from eventlib.cli.parked import parking_json
from eventlib.cli.standing import standings_json, standings_table
from eventlib.eventlog import EventLog
from eventlib.log.base import key_text
from eventlib.model.saga import Saga, SagaEvent
from eventlib.queries.parked import Parking, parkings
from eventlib.queries.sagas import find_saga
from eventlib.replay.amendments import Amendment, amendments_of
from eventlib.replay.point_in_time import SagaSnapshot, standings_of_saga

_WIDE = 100
Facts = dict[tuple[str, int, int], str]
STYLES = {"step": "", "failure": "red", "compensation": "yellow"}
MARKS = {"step": " ", "failure": "✗", "compensation": "↩"}


def print_saga(place: LogOptions, key: str, at: datetime | None, *, only_tree: bool, fold: bool, as_json: bool) -> None:
    """Print a saga's timeline and tree, or all of it as one JSON object; as it stood at a time if one is given."""
    read = look(place, lambda log: _read(log, key, at))
    found, standings = read.saga, read.standings
    if as_json:
        then = {} if at is None else {"at": output.iso(at), "states": standings_json(standings)}
        beside = {
            "parked": [parking_json(each) for each in read.parked],
            "amended": [_amendment_json(each) for each in read.amended],
        }
        output.print_json([{**saga_json(found), **beside, **then}])
        return
    console = output.terminal()
    if not only_tree:
        console.print(headline(found, at), soft_wrap=not console.is_terminal)
        for amendment in read.amended:
            console.print(_amended(amendment))
        for parking in read.parked:
            console.print(_waits(parking))
        console.print()
        _print_timeline(console, found, fold=fold)
        console.print()
    _print_tree(console, found, fold=fold, with_facts=only_tree)
    if standings:
        console.print()
        console.print(standings_table(standings))
    for doubt in {each.doubt for each in standings}:
        output.warn(doubt)


class _Read(NamedTuple):
    """A saga, with what is parked of it now and what people have changed about it; or with how it stood at a time."""

    saga: Saga
    parked: Sequence[Parking] = ()
    amended: Sequence[Amendment] = ()
    standings: Sequence[SagaSnapshot] = ()


async def _read(log: EventLog, key: str, at: datetime | None) -> _Read:
    saga = await find_saga(log, key, at)
    if at is not None:
        return _Read(saga, standings=await standings_of_saga(log, saga, at))
    waiting = [] if saga.ended else await parkings(log, {key_text(event.record) for event in saga.events})
    return _Read(saga, waiting, await amendments_of(log, saga))


def saga_json(saga: Saga) -> dict[str, object]:
    """Return a saga as JSON has it: its events in order, each with its cause and its part."""
    ending = saga.ending
    return {
        "key": saga.key,
        "ended": saga.ended,
        "ending": None if ending is None else ending.type,
        "started_at": output.iso(saga.started_at),
        "duration_ms": saga.duration_ms,
        "events": [event_json(event) for event in saga.events],
    }


def event_json(event: SagaEvent) -> dict[str, object]:
    """Return an event of a saga as JSON has it: with its cause and its part."""
    record = event.record
    line: dict[str, object] = {
        "recorded_at": output.iso_ms(record.timestamp_ms),
        "after_ms": event.after_ms,
        "service": event.service,
        "source": record.source,
        "type": record.type,
        "key": None if record.key is None else key_text(record),
        "id": record.event_id,
        "correlation_id": record.correlation_id,
        "causation_id": record.causation_id,
        "cause": None if event.cause is None else event.cause.type,
        "role": event.role,
        "ends": event.ends,
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "data": event.event,
    }
    return line if event.error is None else {**line, "error": event.error}


def headline(saga: Saga, at: datetime | None = None) -> Text:
    """Return one line on how far a saga has come, by now or by a time."""
    count = f"{len(saga.events):,} event{'' if len(saga.events) == 1 else 's'}"
    ending = saga.ending
    if ending is not None:
        end = Text(f"ended with {ending.type}", style="yellow" if ending.role == "compensation" else "green")
        how_long = f"after {output.duration(saga.duration_ms)}"
    else:
        by = "" if at is None else f" by {output.iso(at)}"
        end = Text(
            f"not ended{by}" if saga.ended is False else "no ending is declared for this kind of key", style="bold"
        )
        how_long = f"over {output.duration(saga.duration_ms)} so far" if saga.ended is False else ""
    parts: list[Text | str] = [
        Text(output.printable(saga.key), style="bold"),
        "  ",
        end,
        f" {how_long}" if how_long else "",
    ]
    return Text.assemble(*parts, f", {count}, from {output.iso(saga.started_at)}")


def _waits(parking: Parking) -> Text:
    what = parking.effect or parking.decider
    because = f"{what} is parked since {output.readable(parking.since)}: {output.printable(parking.reason)}"
    return Text.assemble(
        ("waits  ", "bold red"), because, (f"\n       eventlib parked show {output.printable(parking.key)}", "dim")
    )


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
    return {**asdict(amendment), "at": output.iso(amendment.at)}


def _print_timeline(console: Console, saga: Saga, *, fold: bool) -> None:
    with_cause = console.width >= _WIDE  # the tree below has it too
    columns = ["time (UTC)", "ms", "service", "", "event", "facts", *(["cause"] if with_cause else [])]
    shown = output.table(*columns, right=["ms"], whole=["time (UTC)", "service", "event", "cause"])
    facts = _facts_of(saga, every=not fold)
    for row in rows(saga, fold=fold):
        first = row.first
        cause = "outside" if first.cause is None else (first.cause.type or "")
        shown.add_row(
            output.iso_ms(first.record.timestamp_ms)[11:23],
            f"+{first.after_ms:,}",
            first.service,
            "■" if first.ends else MARKS[first.role],
            Text(row.title, style=f"bold {STYLES[first.role]}".strip()),
            _facts(row, facts),
            *([Text(cause, style="dim")] if with_cause else []),
        )
    console.print(shown)


def _print_tree(console: Console, saga: Saga, *, fold: bool, with_facts: bool) -> None:
    facts = _facts_of(saga, every=not fold) if with_facts else {}
    whole = Tree(Text(output.printable(saga.key), style="bold"), guide_style="dim")
    pending = [(whole, branch) for branch in reversed(branches(saga.roots, fold=fold))]
    while pending:
        parent, row = pending.pop()
        node = parent.add(_node(row, facts))
        below = [child for event in row.events for child in saga.caused_by(event)]
        pending += [(node, branch) for branch in reversed(branches(below, fold=fold))]
    console.print(whole)


def _node(row: Fold, all_facts: Facts) -> Text:
    first = row.first
    mark = "■ " if first.ends else f"{MARKS[first.role]} ".lstrip()
    facts = _facts(row, all_facts)
    label = Text.assemble((f"{mark}{row.title}", f"bold {STYLES[first.role]}".strip()))
    label.append(f"  {first.service} +{first.after_ms:,} ms", style="dim")
    label.append(f"  {facts}" if facts.plain else "")
    label.no_wrap, label.overflow = True, "ellipsis"
    return label


def _facts_of(saga: Saga, *, every: bool) -> Facts:
    """Return what each event adds to the story, or all that it says; by its record's place on the log."""
    facts = [event.facts for event in saga.events] if every else saga.news()
    return {place_of(event): output.facts_text(each) for event, each in zip(saga.events, facts, strict=True)}


def _facts(row: Fold, facts: Facts) -> Text:
    first = row.first
    if first.error is not None:
        return Text(output.printable(first.error), style="red")
    if len(row.events) > 1:
        return Text(row.span, style="dim")
    return Text(facts.get(place_of(first), ""))


def place_of(event: SagaEvent) -> tuple[str, int, int]:
    """Return where an event stands on the log."""
    return event.record.topic, event.record.partition, event.record.offset
