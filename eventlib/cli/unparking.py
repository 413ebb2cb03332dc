"""`eventlib parked retry`, `edit` and `discard`: what is parked goes on, and what became of that."""

import asyncio
import sys
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from time import monotonic

from pydantic_core import from_json
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.text import Text

from eventlib.cli import output
from eventlib.cli.opened import look
from eventlib.cli.options import LogOptions
from eventlib.cli.parked import Which, of_key, parking_json
from eventlib.errors import ContractError
from eventlib.eventlog import EventLog
from eventlib.model.event import Position
from eventlib.operations.command_status import CommandQuery, Outcome, Outcomes, asked_already
from eventlib.operations.parked_commands import event_with, request_discard, request_edit, request_retries
from eventlib.queries.parked import Parking, parkings

_LOOKS_S = 0.1
_REASONS = 5
Told = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class Patience:
    """How long to wait for services that do nothing about what was asked (seconds), and who hears how far they are."""

    seconds: float
    told: Told = lambda _done, _of: None


@dataclass(frozen=True, slots=True)
class Tried:
    """What was asked for, where it stands, and what became of it."""

    asked: Sequence[CommandQuery]
    outcomes: Outcomes

    def lines(self) -> list[dict[str, object]]:
        """Return a JSON object for each."""
        return [
            {
                **parking_json(self.outcomes.parked_again.get(each.parking.name, each.parking)),
                "requested_at_offset": each.offset,
                "outcome": outcome,
            }
            for each, outcome in zip(self.asked, self.outcomes.all, strict=True)
        ]


@dataclass(frozen=True, slots=True)
class Change:
    """Other data for an input, as it was typed: all of it as JSON, or fields (NAME=VALUE)."""

    data: str | None
    fields: Sequence[str]

    def parsed(self) -> tuple[object, Mapping[str, object]]:
        """Return the data, or None, and the fields. Raises: ContractError."""
        data = None if self.data is None else _json("--data", sys.stdin.read() if self.data == "-" else self.data)
        return data, dict(map(_field, self.fields))


def retry_one(place: LogOptions, decider: str, key: str, by: str, wait_s: float, *, as_json: bool) -> int:
    """Ask for a (decider, key) to be handled again, and print what became of it; return the exit code."""

    async def tried(log: EventLog) -> Tried:
        name = log.choreography.decider(decider).name
        found = of_key([each for each in await parkings(log) if each.decider == name], key)
        return await _retried(log, found, by, Patience(wait_s))

    return _print(look(place, tried), as_json=as_json)


def retry_all(place: LogOptions, which: Which, by: str, wait_s: float, *, as_json: bool) -> int:
    """Ask for all that is meant to be handled again, and follow that; return the exit code.

    What somebody has asked for already, and is not done yet, is followed and not asked for again.
    """
    with _progress() as progress:
        bar = progress.add_task("retried", total=None)

        def told(done: int, of: int) -> None:
            progress.update(bar, completed=done, total=of, visible=of > 0)

        async def tried(log: EventLog) -> Tried:
            return await _retried(log, await parkings(log, wanted=which.of(log)), by, Patience(wait_s, told))

        done = look(place, tried)
    return _print(done, as_json=as_json)


def edit(place: LogOptions, name: tuple[str, str], change: Change, why: tuple[str, str], *, as_json: bool) -> int:
    """Have the first input of a parked (decider, key) handled with other data; `why` is who, and the reason."""
    data, fields = change.parsed()

    async def asked(log: EventLog, parking: Parking) -> Position:
        return await request_edit(log, parking, await event_with(log, parking, data, fields), *why)

    return _print(look(place, lambda log: _amended(log, name, asked)), as_json=as_json)


def discard(place: LogOptions, name: tuple[str, str], why: tuple[str, str], *, as_json: bool) -> int:
    """Give up the first input of a parked (decider, key), or a parked effect by its id."""

    async def asked(log: EventLog, parking: Parking) -> Position:
        return await request_discard(log, parking, *why)

    return _print(look(place, lambda log: _amended(log, name, asked)), as_json=as_json)


async def _amended(
    log: EventLog, name: tuple[str, str], ask: Callable[[EventLog, Parking], Awaitable[Position]]
) -> Tried:
    decider = log.choreography.decider(name[0]).name
    found = of_key([each for each in await parkings(log) if each.decider == decider], name[1])
    if len(found) > 1:
        ids = ", ".join(each.id or each.key for each in found)
        raise ContractError(f"under {name[1]!r} there is more than one thing parked: name one of {ids}")
    position = await ask(log, found[0])
    return await _followed(log, [CommandQuery(found[0], position.offset)], Patience(_SOON_S))


async def _retried(log: EventLog, found: Sequence[Parking], by: str, patience: Patience) -> Tried:
    already = await asked_already(log, found)
    new = [each for each in found if each.name not in already]
    offsets = {each.name: p.offset for each, p in zip(new, await request_retries(log, new, by), strict=True)}
    return await _followed(log, [CommandQuery(each, {**already, **offsets}[each.name]) for each in found], patience)


async def _followed(log: EventLog, asked: Sequence[CommandQuery], patience: Patience) -> Tried:
    """Wait until all was done, or nothing more is for a while."""
    outcomes = Outcomes(log, asked)
    left, moved_at = await outcomes.look(), monotonic()
    patience.told(len(asked) - left, len(asked))
    while left and monotonic() - moved_at < patience.seconds:
        await asyncio.sleep(_LOOKS_S)
        before, left = left, await outcomes.look()
        if left < before:
            moved_at = monotonic()
            patience.told(len(asked) - left, len(asked))
    return Tried(asked, outcomes)


def _print(tried: Tried, *, as_json: bool) -> int:
    if as_json:
        output.print_json(tried.lines())
    else:
        _print_summary(output.terminal(), tried)
    return 1 if tried.outcomes.parked_again else 0


def _print_summary(console: Console, tried: Tried) -> None:
    counts = Counter(tried.outcomes.all)
    if not tried.asked:
        console.print("Nothing is parked.")
        return
    if len(tried.asked) == 1:
        parking = tried.asked[0].parking
        console.print(
            Text(
                f"{parking.service}, {parking.effect or parking.decider} {output.printable(parking.key)}: {_ONE[tried.outcomes.all[0]]}"
            )
        )
    else:
        parts = [f"{counts[outcome]:,} {_MANY[outcome]}" for outcome in _MANY if counts[outcome]]
        console.print(", ".join(parts) + ".")
    reasons = Counter(each.reason for each in tried.outcomes.parked_again.values())
    for reason, count in reasons.most_common(_REASONS):
        console.print(Text(f"{count:>7,}  {output.printable(reason)}", style="red"))
    if len(reasons) > _REASONS:
        console.print(Text(f"         and {len(reasons) - _REASONS:,} more: `eventlib parked list`", style="dim"))


def _progress() -> Progress:
    shown = [TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()]
    console = output.terminal(stderr=True)
    return Progress(*shown, console=console, transient=True, disable=not console.is_terminal)


def _field(text: str) -> tuple[str, object]:
    name, found, value = text.partition("=")
    if not (name and found):
        raise ContractError(f"--set {text!r}: write NAME=VALUE, the value as JSON or as plain text")
    try:
        return name, from_json(value)
    except ValueError:
        return name, value


def _json(option: str, text: str) -> object:
    try:
        return from_json(text)
    except ValueError as error:
        raise ContractError(f"{option} is not JSON: {error}") from error


_SOON_S = 1.0
_ONE = {
    "asked": "asked for. The services do it when they run.",
    "handled": "done, and nothing of it is parked any more.",
    "parked again": "could not be handled, and is parked again.",
}
_MANY: dict[Outcome, str] = {
    "handled": "handled",
    "parked again": "parked again",
    "asked": "asked for: the services do it when they run",
}
