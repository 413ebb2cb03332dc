"""How commands print: JSON lines fast, tables and timelines for a terminal."""

import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from itertools import islice, zip_longest
from typing import IO, Any, NoReturn

from pydantic_core import to_json
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderResult
from rich.segment import Segment
from rich.text import Text

from eventlib.json_form import json_of
from eventlib.values import escaped, escaped_lines, iso

_WIDTH_WHEN_PIPED = 1_000_000
"""What reads a pipe breaks lines itself, where it wants to."""
_BETWEEN = 2
"""Spaces between two columns."""
_WORD = re.compile(r"\s*\S+\s*")
_LINES_AT_ONCE = 1_000


_SOON = timedelta(hours=20)


class _Terminal(Console):
    """A console that escapes control characters, and ends the command quietly when its reader has closed the pipe."""

    def _render_buffer(self, buffer: Iterable[Segment]) -> str:
        safe = (each if each.control else Segment(escaped_lines(each.text), each.style) for each in buffer)
        text = super()._render_buffer(safe)
        return text if self.is_terminal else _PADDING.sub("", text)

    @property  # type: ignore[misc]  # read only: it is what stdout or stderr is
    def file(self) -> IO[str]:
        """Where it writes: the stream itself, also while a progress bar has put another one in its place."""
        found = super().file
        while (behind := getattr(found, "rich_proxied_file", None)) is not None:
            found = behind
        return found

    def print(self, *shown: Any, **options: Any) -> None:
        """Print; a word that is wider than the terminal is whole, and the terminal's to break."""
        super().print(*shown, **{"crop": False, **options})

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


class Fields:
    """Names with values beside them. Guarantee: no word is broken; a value with too long a word begins below its name."""

    def __init__(self, least: int = 0) -> None:
        self._least = least
        self._rows = list[tuple[Text, Text, int]]()

    def add_row(self, name: str | Text = "", value: Cell = "", indent: int = 0) -> None:
        """Add a name and its value, which is indented by so many columns."""
        self._rows.append((name if isinstance(name, Text) else Text(escaped(name), style="dim"), _cell(value), indent))

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Render a line for each name, and more where the value has more."""
        widest = max((name.cell_len for name, _, _ in self._rows), default=0)
        widest = max(widest, self._least) + _BETWEEN
        for name, value, indent in self._rows:
            begin, at = name.copy(), widest + indent
            if _longest(str(value).split()) > options.max_width - at:
                at = min(at, _BETWEEN + indent)
                if name.plain:
                    yield name
                    begin = Text()
            for part in _parts(value, options.max_width - at):
                begin.pad_right(at - begin.cell_len if part.plain else 0)
                yield Text.assemble(begin, part, no_wrap=True, overflow="ignore")
                begin = Text()


class Rows:
    """A table. Guarantee: no key, number or other word is broken, and in a pipe no line.

    A terminal that is too narrow shows neither empty columns nor, one by one, the `spare` ones; then each row as a block.
    """

    def __init__(
        self, *columns: str, right: Iterable[str] = (), whole: Iterable[str] = (), spare: Iterable[str] = ()
    ) -> None:
        self._names = columns
        self._spare = [columns.index(name) for name in spare]
        self._right = {i for i, name in enumerate(columns) if name in {*right}}
        self._whole = {0, *self._right, *(i for i, name in enumerate(columns) if name in {*whole})}
        self._rows = list[tuple[list[Text], str]]()

    def add_row(self, *cells: Cell, style: str | None = None) -> None:
        """Add a row of cells; the last ones may be left out."""
        numbers = {i for i, cell in enumerate(cells) if isinstance(cell, int)}
        self._right |= numbers
        self._whole |= numbers
        left_out = [Text()] * (len(self._names) - len(cells))
        self._rows.append(([*map(_cell, cells), *left_out], style or ""))

    def add_section(self) -> None:
        """Leave a line free before the next row."""
        self._rows.append(([], ""))

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Render it, as blocks where its columns do not fit."""
        shown = [*range(len(self._names))]
        empty = [i for i in shown if not any(str(cells[i]).strip() for cells, _ in self._rows if cells)]
        for left_out in [None, *empty, *self._spare]:
            shown = [i for i in shown if i != left_out]
            widths = self._widths(shown, options.max_width - _BETWEEN * (len(shown) - 1))
            if widths is not None:
                yield from self._lines(widths)
                return
        yield from self._blocks(shown)

    def _widths(self, shown: Sequence[int], room: int) -> Mapping[int, int] | None:
        """Return the width of each column; None where their longest words do not fit."""
        least, most = dict[int, int](), dict[int, int]()
        for i in shown:
            lines = [line for cells, _ in self._rows if cells for line in str(cells[i]).splitlines()]
            most[i] = _longest([self._names[i], *lines])
            words = (word for line in lines for word in line.split())
            least[i] = most[i] if i in self._whole else _longest([self._names[i], *words])
        room -= sum(least.values())
        if room < 0:
            return None
        for left, i in zip(range(len(shown), 0, -1), sorted(shown, key=lambda i: most[i] - least[i]), strict=True):
            more = min(most[i] - least[i], room // left)
            least[i], room = least[i] + more, room - more
        return least

    def _lines(self, widths: Mapping[int, int]) -> Iterator[Text]:
        yield self._line([Text(self._names[i]) for i in widths], widths, "bold")
        yield Text("─" * (sum(widths.values()) + _BETWEEN * (len(widths) - 1)), no_wrap=True, overflow="ignore")
        for cells, style in self._rows:
            parts = [_parts(cells[i], width) for i, width in widths.items()] if cells else [[Text()]]
            for line in zip_longest(*parts, fillvalue=Text()):
                yield self._line(line, widths, style)

    def _line(self, parts: Sequence[Text], widths: Mapping[int, int], style: str) -> Text:
        line, at = Text(style=style, no_wrap=True, overflow="ignore"), 0
        for (i, width), part in zip(widths.items(), parts, strict=False):
            begin = at + (width - part.cell_len if i in self._right else 0)
            if part.plain:
                line.pad_right(begin - line.cell_len)
                line.append_text(part)
            at += width + _BETWEEN
        return line

    def _blocks(self, shown: Sequence[int]) -> Iterator[Text | Fields]:
        for number, (cells, _) in enumerate(row for row in self._rows if row[0]):
            if number:
                yield Text()
            there = [i for i in shown if str(cells[i]).strip()]
            if len(there) == 1:  # a heading
                yield cells[there[0]]
                continue
            block = Fields(_longest(self._names[i] for i in shown))
            for i in there:
                block.add_row(self._names[i], cells[i])
            yield block


def _longest(texts: Iterable[str]) -> int:
    return max(map(cell_len, texts), default=0)


def _parts(text: Text, width: int) -> list[Text]:
    """Return a text's lines, divided between words where they are wider."""
    parts = list[Text]()
    for line in text.split(allow_blank=True):
        breaks, used = list[int](), 0
        for word in _WORD.finditer(line.plain):
            if word.start() and used + cell_len(word[0].rstrip()) > width:
                breaks.append(word.start())
                used = 0
            used += cell_len(word[0])
        parts += line.divide(breaks)
    for part in parts:
        part.rstrip()
    return parts


def _cell(cell: Cell) -> Text:
    if isinstance(cell, Text):
        return cell
    return Text("" if cell is None else f"{cell:,}" if isinstance(cell, int) else escaped(cell))


def table(*columns: str, right: Iterable[str] = (), whole: Iterable[str] = (), spare: Iterable[str] = ()) -> Rows:
    """Return an empty table.

    `right` are columns of numbers given as texts, `whole` columns whose spaces do not break, `spare` those that a narrow
    terminal does without, the first of them first.
    """
    return Rows(*columns, right=right, whole=whole, spare=spare)


def print_table(
    columns: Iterable[str],
    rows: Iterable[Row],
    *,
    right: Iterable[str] = (),
    whole: Iterable[str] = (),
    spare: Iterable[str] = (),
) -> None:
    """Print a table; as `table`, but numbers are numbers."""
    shown = Rows(*columns, right=right, whole=whole, spare=spare)
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
