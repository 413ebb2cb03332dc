"""Waits for the outcomes of commands about parked keys and effects, and prints them."""

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import monotonic

from rich.console import Console
from rich.text import Text

from eventlib.cli._common import output
from eventlib.eventlog import EventLog
from eventlib.operations.as_json import parking_json
from eventlib.operations.command_status import CommandQuery, Outcome, Outcomes

_LOOKS_S = 0.1


_REASONS = 5


SOON_S = 1.0


Progress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class Patience:
    """How long to wait without progress (seconds), and the callback for progress."""

    seconds: float
    on_progress: Progress = lambda _done, _of: None


@dataclass(frozen=True, slots=True)
class Retried:
    """The requests, their progress, and their outcomes."""

    requests: Sequence[CommandQuery]
    outcomes: Outcomes

    def lines(self) -> list[dict[str, object]]:
        """Return one JSON object per request."""
        return [
            {
                **parking_json(self.outcomes.parked_again.get(each.parking.name, each.parking)),
                "requested_at_offset": each.offset,
                "outcome": outcome,
            }
            for each, outcome in zip(self.requests, self.outcomes.all, strict=True)
        ]


async def follow(log: EventLog, requests: Sequence[CommandQuery], patience: Patience) -> Retried:
    """Wait until all is done, or nothing progresses for a while."""
    outcomes = Outcomes(log, requests)
    left, moved_at = await outcomes.refresh(), monotonic()
    patience.on_progress(len(requests) - left, len(requests))
    while left and monotonic() - moved_at < patience.seconds:
        await asyncio.sleep(_LOOKS_S)
        before, left = left, await outcomes.refresh()
        if left < before:
            moved_at = monotonic()
            patience.on_progress(len(requests) - left, len(requests))
    return Retried(requests, outcomes)


def print_outcomes(retried: Retried, *, as_json: bool) -> int:
    """Print the outcome of each command, and return the exit code: 1 when something is parked again."""
    if as_json:
        output.print_json(retried.lines())
    else:
        _print_summary(output.terminal(), retried)
    return 1 if retried.outcomes.parked_again else 0


def _print_summary(console: Console, retried: Retried) -> None:
    counts = Counter(retried.outcomes.all)
    if not retried.requests:
        console.print("Nothing is parked.")
        return
    if len(retried.requests) == 1:
        parking = retried.requests[0].parking
        console.print(
            Text(
                f"{parking.service}, {parking.effect or parking.decider} {output.printable(parking.key)}: {_ONE[retried.outcomes.all[0]]}"
            )
        )
    else:
        parts = [f"{counts[outcome]:,} {_MANY[outcome]}" for outcome in _MANY if counts[outcome]]
        console.print(", ".join(parts) + ".")
    reasons = Counter(each.reason for each in retried.outcomes.parked_again.values())
    for reason, count in reasons.most_common(_REASONS):
        console.print(Text(f"{count:>7,}  {output.printable(reason)}", style="red"))
    if len(reasons) > _REASONS:
        console.print(Text(f"         and {len(reasons) - _REASONS:,} more: `eventlib parked list`", style="dim"))


_ONE = {
    "asked": "requested. The services do it when they run.",
    "handled": "done, and none of it is parked any more.",
    "parked again": "could not be handled, and is parked again.",
}


_MANY: dict[Outcome, str] = {
    "handled": "handled",
    "parked again": "parked again",
    "asked": "requested: the services do it when they run",
}
