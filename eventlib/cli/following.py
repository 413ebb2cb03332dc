"""`eventlib saga --follow`: a saga as it goes on, an event a line."""

from contextlib import aclosing

from rich.console import Console
from rich.text import Text

from eventlib.cli import output
from eventlib.cli.opened import look
from eventlib.cli.options import LogOptions
from eventlib.cli.saga import MARKS, STYLES, event_json, headline, place_of
from eventlib.eventlog import EventLog
from eventlib.model.saga import Saga, SagaEvent
from eventlib.queries.sagas import follow_saga


def print_following(place: LogOptions, key: str, *, as_json: bool) -> None:
    """Print a saga's events, and what follows as it comes, until the saga has ended."""
    look(place, lambda log: _follow(log, key, as_json=as_json))


async def _follow(log: EventLog, key: str, *, as_json: bool) -> None:
    console = output.terminal()
    shown = set[tuple[str, int, int]]()
    async with aclosing(follow_saga(log, key)) as growing:
        async for saga in growing:
            if not saga.events and not as_json:
                console.print(Text(f"{key} has no event yet; waiting for the first one.", style="dim"))
            new = [i for i, event in enumerate(saga.events) if place_of(event) not in shown]
            shown |= {place_of(event) for event in saga.events}
            if as_json:
                output.print_json(event_json(saga.events[i]) for i in new)
            else:
                _print(console, saga, new)
            if saga.ended:
                break
    if not as_json:
        console.print()
        console.print(headline(saga), soft_wrap=not console.is_terminal)


def _print(console: Console, saga: Saga, new: list[int]) -> None:
    facts = saga.news()
    for i in new:
        line = _line(saga.events[i], output.facts_text(facts[i]))
        line.no_wrap, line.overflow = True, "ellipsis" if console.is_terminal else "ignore"
        console.print(line, soft_wrap=not console.is_terminal)


def _line(event: SagaEvent, facts: str) -> Text:
    mark = "■" if event.ends else MARKS[event.role]
    at = output.iso_ms(event.record.timestamp_ms)[11:23]
    line = Text(f"{at} {f'+{event.after_ms:,}':>8}  {event.service:<10} {mark} ")
    line.append(f"{event.type:<20}", style=f"bold {STYLES[event.role]}".strip())
    line.append(
        f" {output.printable(event.error)}" if event.error else f" {facts}", style="red" if event.error else "dim"
    )
    line.rstrip()
    return line
