"""How commands print: JSON lines fast, tables and timelines for a terminal."""

import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import NoReturn

from pydantic_core import to_json
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.segment import Segment
from rich.table import Table

from eventlib.json_form import json_of
from eventlib.values import escaped, escaped_lines, iso

WIDTH_WHEN_PIPED = 120


_LINES_AT_ONCE = 1_000


_SOON = timedelta(hours=20)


class _Terminal(Console):
    """A console that escapes control characters, and ends the command quietly when its reader has closed the pipe."""

    def _render_buffer(self, buffer: Iterable[Segment]) -> str:
        safe = (each if each.control else Segment(escaped_lines(each.text), each.style) for each in buffer)
        return super()._render_buffer(safe)

    def on_broken_pipe(self) -> NoReturn:
        raise BrokenPipeError


def terminal(*, stderr: bool = False) -> Console:
    """Return stdout, or stderr, for people: coloured on a terminal (NO_COLOR is respected), plain in a pipe."""
    console = _Terminal(highlight=False, emoji=False, stderr=stderr)
    if not console.is_terminal and "COLUMNS" not in console._environ:  # noqa: SLF001  the environment it goes by
        console.width = WIDTH_WHEN_PIPED
    return console


def table(*columns: str, right: Iterable[str] = (), whole: Iterable[str] = ()) -> Table:
    """Return an empty table; `right` are columns of numbers, `whole` columns that never wrap."""
    made = Table(box=SIMPLE_HEAD, header_style="bold", pad_edge=False, show_edge=False, collapse_padding=True)
    for column in columns:
        number = column in right
        made.add_column(
            column, justify="right" if number else "left", no_wrap=number or column in whole, overflow="fold"
        )
    return made


@contextmanager
def records_bar(what: str, *, quiet: bool) -> Iterator[Callable[[int, int | None], None]]:
    """Show on a terminal's stderr how many records are done: yields a callback (how many more, of how many)."""
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    bars = Progress(
        *(TextColumn("{task.description}"), BarColumn(), TextColumn("{task.completed:,.0f}"), TimeElapsedColumn()),
        console=Console(stderr=True),
        disable=quiet or not sys.stderr.isatty(),
    )
    with bars:
        task = bars.add_task(what, total=None)
        known = 0

        def show(more: int, total: int | None) -> None:
            nonlocal known
            known = known if total is None else total
            bars.update(task, advance=more, total=known or None)

        yield show


def print_json(values: Iterable[object]) -> None:
    """Print one JSON object a line, as they come, a thousand at a time."""
    lines = map(json_line, values)
    while some := [*islice(lines, _LINES_AT_ONCE)]:
        write_lines(some)


def json_line(value: object) -> bytes:
    """Return a value as JSON, on one line. Raises: ValueError for what JSON cannot represent."""
    line = to_json(json_of(value))
    return line if line.isascii() and b"\x7f" not in line else escaped(line.decode()).encode()


def write_lines(lines: Iterable[bytes]) -> None:
    """Write lines to stdout unchanged, and flush."""
    sys.stdout.flush()
    sys.stdout.buffer.write(b"\n".join(lines) + b"\n")
    sys.stdout.buffer.flush()


def warn(sentence: str) -> None:
    """Print a note on stderr about what was printed; nothing when it is empty."""
    if sentence:
        sys.stderr.write(f"note: {sentence}\n")


def readable(at: datetime) -> str:
    """Return a time for a person, UTC: with the date unless it is recent."""
    text = iso(at)[:19].replace("T", " ")
    return text[11:] if abs(datetime.now(UTC) - at) < _SOON else text


def duration(milliseconds: int) -> str:
    """Return a duration in a readable unit."""
    seconds = milliseconds / 1000
    if seconds < 10:  # noqa: PLR2004  below, milliseconds say more
        return f"{milliseconds:,} ms"
    if seconds < 120:  # noqa: PLR2004  two minutes
        return f"{seconds:.1f} s"
    return str(timedelta(seconds=round(seconds)))


def facts_text(facts: Mapping[str, object], limit: int = 6) -> str:
    """Return an event's or state's fields as a short text: `amount_cents=1995 currency=EUR lines=3`."""
    shown = [f"{name}={_short(value)}" for name, value in facts.items() if not _is_empty(value)]
    return " ".join(shown[:limit]) + (" …" if len(shown) > limit else "")


def printable(text: str) -> str:
    """Return external text for one line: escaped, so that it cannot imitate other lines."""
    return escaped(text)


def short_id(event_id: str) -> str:
    """Return the beginning of an event's id, which commands accept; an externally chosen id stays whole."""
    return event_id[:8] if _ID.fullmatch(event_id) else event_id


def counted(number: int, thing: str) -> str:
    """Return a number with its noun: `1 input`, `2,500 inputs`."""
    return f"{number:,} {thing}" if number == 1 else f"{number:,} {thing}s"


def _short(value: object) -> str:
    if isinstance(value, datetime):
        return iso(value)
    if isinstance(value, (list, tuple, set, frozenset, dict)):
        return f"[{len(value)}]"
    text = escaped(str(value))
    if _ID.fullmatch(text):
        return f"{short_id(text)}…"
    return text if len(text) <= _LONG else text[: _LONG - 1] + "…"


def _is_empty(value: object) -> bool:
    return value is None or value in ("", (), [])


_LONG = 40


_ID = re.compile(r"[0-9a-f]{32}")
