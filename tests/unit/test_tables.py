"""Tables and fields at each width: whole words, columns that go or turn, and in a pipe one line a row."""

from collections.abc import Callable, Sequence

import pytest
from rich.cells import cell_len

from eventlib.cli._common import output

ID = "5c0fe74e1830ebc3a2f2645360e6e358"
KEYS = ["2026-11-28-WEB-00017", "注文-東京-00017", "طلب-42", ID]
REASON = f"TerminalError: the gateway does not know {ID}; ask the bank"
WIDTHS = [40, 60, 80, 200]
At = Callable[[int | None], Sequence[str]]


@pytest.fixture
def table(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> At:
    def printed(width: int | None) -> Sequence[str]:
        monkeypatch.delenv("COLUMNS", raising=False)
        if width is not None:
            monkeypatch.setenv("COLUMNS", str(width))
        rows = [(key, "payment", 1234567 + number, "", "15fe79bf", REASON) for number, key in enumerate(KEYS)]
        columns = ["key", "service", "waiting", "edited", "code", "reason"]
        output.print_table(columns, rows, whole=["service"], spare=["code", "service"])
        return capsys.readouterr().out.splitlines()

    return printed


@pytest.mark.parametrize("width", WIDTHS)
def test_no_key_number_or_word_is_broken(table: At, width: int) -> None:
    lines = table(width)
    words = " ".join(lines).split()
    assert [key for key in KEYS if key not in words] == []
    assert [number for number in range(1234567, 1234571) if f"{number:,}" not in words] == []
    assert all(words.count(word) >= len(KEYS) for word in REASON.split())
    assert max(map(cell_len, lines)) <= width
    assert [line for line in lines if line != line.rstrip()] == []


@pytest.mark.parametrize(
    ("width", "head"),
    [
        (None, ["key", "service", "waiting", "edited", "code", "reason"]),
        (200, ["key", "service", "waiting", "edited", "code", "reason"]),
        (100, ["key", "service", "waiting", "code", "reason"]),
        (80, ["key", "waiting", "reason"]),
        (60, ["key", KEYS[0]]),
    ],
)
def test_columns_go_one_by_one_where_it_is_narrow_then_each_row_is_a_block(
    table: At, width: int | None, head: list[str]
) -> None:
    assert table(width)[0].split()[: len(head)] == head


def test_a_pipe_has_one_line_for_each_row(table: At) -> None:
    lines = table(None)
    assert len(lines) == 2 + len(KEYS)
    assert all(REASON in line for line in lines[2:])


def test_a_value_that_does_not_fit_begins_below_its_name(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    shown = output.Fields()
    shown.add_row("requests answered", "1")
    shown.add_row("changed by", ID)
    shown.add_row("data", "x" * 60)
    shown.add_row("", "one two three four five six seven eight", indent=2)
    output.terminal().print(shown)
    assert capsys.readouterr().out.splitlines() == [
        "requests answered  1",
        "changed by",
        f"  {ID}",
        "data",
        f"  {'x' * 60}",
        "                     one two three four",
        "                     five six seven",
        "                     eight",
    ]


def test_a_long_line_stays_one_line_in_a_pipe(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    text = "word " * 5_000
    output.terminal().print(text)
    output.print_table(["what"], [(text,)])
    assert [len(line) for line in capsys.readouterr().out.splitlines() if line.startswith("word")] == [24_999, 24_999]
