"""mypy --strict accepts what the shop's code looks like, and refuses what would fail at run time."""

import re
from pathlib import Path

import pytest
from mypy import api

from tests.commands import known_types

SNIPPETS = """
from dataclasses import dataclass

from eventlib.model.decider import Decider
from eventlib.model.event import Event, Meta
from eventlib.model.states import replace
from services.stock.events import LineRefused, LineRequested, LineReserved, StockReceived


@dataclass(frozen=True)
class Shelf:
    on_hand: int = 0


@dataclass(frozen=True)
class Other:
    pass


shelves = Decider("shelf", state=Shelf, key="sku")


@shelves.on
def right(shelf: Shelf, line: LineRequested) -> list[LineReserved | LineRefused]:
    return [LineReserved(order_id=line.order_id, line_no=line.line_no, sku=line.sku, quantity=line.quantity)]


@shelves.on
def right_for_two(shelf: Shelf, event: LineRequested | StockReceived, meta: Meta) -> list[LineReserved]:
    return []


@shelves.on
def right_for_nothing_in_answer(shelf: Shelf, event: LineRequested | StockReceived) -> None: ...


@shelves.on(LineRequested)
def right_and_named(shelf: Shelf, line: LineRequested) -> list[LineReserved | LineRefused]:
    return []


@shelves.on(LineRequested, StockReceived)
def right_and_two_are_named(shelf: Shelf, event: LineRequested | StockReceived, meta: Meta) -> list[LineReserved]:
    return []


@shelves.on(StockReceived)  # refused: arg-type
def for_another_event(shelf: Shelf, line: LineRequested) -> list[LineReserved]:
    return []


@shelves.on  # refused: type-var
def for_no_event(shelf: Shelf, line: str) -> list[LineReserved]:
    return []


@shelves.on  # refused: arg-type
def for_another_state(shelf: Other, line: LineRequested) -> list[LineReserved]:
    return []


@shelves.on(LineRequested)  # refused: arg-type
def named_for_another_state(shelf: Other, line: LineRequested) -> list[LineReserved]:
    return []


@shelves.on  # refused: type-var
def says_no_events(shelf: Shelf, line: LineRequested) -> list[str]:
    return []


shelves.follows(Shelf)  # refused: arg-type


def misspelt(shelf: Shelf) -> Shelf:
    return replace(shelf, on_hadn=1)  # refused: call-arg


def of_another_type(shelf: Shelf) -> Shelf:
    return replace(shelf, on_hand="one")  # refused: arg-type


def says_another() -> list[LineReserved]:
    return [StockReceived(sku="A", quantity=1)]  # refused: list-item


def lacks_a_field() -> Event:
    return StockReceived(sku="A")  # refused: call-arg
"""


@pytest.mark.heavy
def test_what_is_wrong_is_refused_where_it_is_written(tmp_path: Path) -> None:
    snippet = tmp_path / "snippet.py"
    snippet.write_text(SNIPPETS)
    expected = {
        (number, line.split("refused: ")[1])
        for number, line in enumerate(SNIPPETS.splitlines(), 1)
        if "refused: " in line
    }
    report, _, _ = api.run(["--strict", f"--cache-dir={known_types(tmp_path / 'known')}", str(snippet)])
    found = {(int(line), code) for line, code in re.findall(r":(\d+): error: .*\[([a-z-]+)\]", report)}
    assert found == expected, report
