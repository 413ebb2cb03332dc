"""How commands print: JSON lines fast, tables and timelines for a terminal."""

import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Any, NoReturn

from pydantic_core import to_json
from rich.box import SIMPLE_HEAD
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderResult
from rich.segment import Segment
from rich.style import StyleType
from rich.table import Column, Table
from rich.text import Text

from eventlib.json_form import json_of
from eventlib.values import escaped, escaped_lines, iso

_WIDTH_WHEN_PIPED = 10_000
"""What reads a pipe breaks lines itself, where it wants to."""
_BETWEEN = 2
"""Spaces between two columns."""
_LONGEST_WORD = 30
"""A longer one may be broken, unless its column is whole."""
_LINES_AT_ONCE = 1_000


_SOON = timedelta(hours=20)


class _Terminal(Console):
    """A console that escapes control characters, and ends the command quietly when its reader has closed the pipe."""

    def _render_buffer(self, buffer: Iterable[Segment]) -> str:
        safe = (each if each.control else Segment(escaped_lines(each.text), each.style) for each in buffer)
        text = super()._render_buffer(safe)
        return text if self.is_terminal else _PADDING.sub("", text)

    def on_broken_pipe(self) -> NoReturn:
        raise BrokenPipeError


def terminal(*, stderr: bool = False) -> Console:
    """Return stdout, or stderr, for people: coloured on a terminal (NO_COLOR is respected), plain in a pipe."""
    console = _Terminal(highlight=False, emoji=False, stderr=stderr)
    if not console.is_terminal and "COLUMNS" not in console._environ:  # noqa: SLF001  the environment it goes by
        console.width = _WIDTH_WHEN_PIPED
    return console


Cell = str | int | Text | None
"""Text (escaped where it is a `str`), a number (right-aligned), or nothing."""
Row = Sequence[Cell]


def say(text: str | Text = "", style: str = "", *, stderr: bool = False) -> None:
    """Print a line for people, escaped where it is a `str`: a terminal breaks it where it has to, and copies it whole."""
    line = text if isinstance(text, Text) else Text(printable(text), style=style)
    terminal(stderr=stderr).print(line, soft_wrap=True)


def grid() -> Table:
    """Return an empty table of names and values, without lines."""
    made = Table.grid(padding=(0, 2))
    made.add_column(no_wrap=True)
    made.add_column(overflow="fold")
    return made


class Rows(Table):
    """A table. Guarantee: no key, number or time is broken, and in a pipe no line.

    A terminal that is too narrow shows no `spare` columns; if it still is, each row as a block.
    """

    def __init__(self, *columns: str, whole: Iterable[str] = (), spare: Iterable[str] = ()) -> None:
        self._spare = {*spare}
        super().__init__(box=SIMPLE_HEAD, header_style="bold", pad_edge=False, show_edge=False, collapse_padding=True)
        for i, column in enumerate(columns):
            self.add_column(column, no_wrap=not i or column in whole, overflow="fold")

    def add_row(self, *cells: Any, style: StyleType | None = None, end_section: bool = False) -> None:
        """Add a row of cells."""
        for column, cell in zip(self.columns, cells, strict=False):
            if isinstance(cell, int):
                column.justify, column.no_wrap = "right", True
        super().add_row(*map(_cell, cells), style=style, end_section=end_section)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Render it, as blocks where its columns do not fit."""
        for column in self.columns:
            lines = [line for text in _texts(column) for line in text.splitlines()]
            words = [word for line in lines for word in line.split()]
            column.no_wrap = column.no_wrap or len(words) <= len(lines)
            longest = max(map(cell_len, lines if column.no_wrap else words), default=0)
            column.min_width = longest if column.no_wrap else min(longest, _LONGEST_WORD)
        if not self._fits(options):
            self.columns = [column for column in self.columns if column.header not in self._spare]
        if self._fits(options):
            yield from super().__rich_console__(console, options)
            return
        blocks = grid()
        for row in zip(*(column.cells for column in self.columns), strict=True):
            for column, cell in zip(self.columns, row, strict=True):
                if str(cell):
                    blocks.add_row(Text(str(column.header), style="dim"), cell)
            blocks.add_row()
        yield blocks

    def _fits(self, options: ConsoleOptions) -> bool:
        widths = [column.min_width or 0 for column in self.columns]
        return sum(widths) + _BETWEEN * (len(widths) - 1) <= options.max_width


def _texts(column: Column) -> Iterator[str]:
    yield str(column.header)
    yield from map(str, column.cells)


def _cell(cell: Cell) -> Text:
    if isinstance(cell, Text):
        return cell
    return Text("" if cell is None else f"{cell:,}" if isinstance(cell, int) else escaped(cell))


def table(*columns: str, right: Iterable[str] = (), whole: Iterable[str] = (), spare: Iterable[str] = ()) -> Rows:
    """Return an empty table; `right` are columns of numbers given as texts, `whole` columns whose spaces do not break."""
    made = Rows(*columns, whole=whole, spare=spare)
    for column in made.columns:
        if column.header in {*right}:
            column.justify, column.no_wrap = "right", True
    return made


def print_table(
    columns: Iterable[str], rows: Iterable[Row], *, whole: Iterable[str] = (), spare: Iterable[str] = ()
) -> None:
    """Print a table; as `table`, but numbers are numbers."""
    shown = Rows(*columns, whole=whole, spare=spare)
    for row in rows:
        shown.add_row(*row)
    terminal().print(shown)


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
_PADDING = re.compile(r" +$", re.MULTILINE)
