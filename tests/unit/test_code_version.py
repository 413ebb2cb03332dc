"""The version of the code that decides follows what it does, not what is written about it."""

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from eventlib import Choreography, Service
from eventlib.runtime.records import code_version

CODE = '''"""Tills."""

from dataclasses import dataclass
from typing import Never

from eventlib import Decider, Event


class Odd(Exception):
    """Take care."""


class Paid(Event, topic="tills", key="till", request=True):
    """Somebody paid."""

    till: str
    cents: int  # of a pound


@dataclass(frozen=True)
class Till:
    """What is in it."""

    cents: int = 0


tills = Decider("till", state=Till, key="till")


@tills.evolve
def evolve(till: Till, event: Event) -> Till:
    """Count."""
    return Till(till.cents + event.cents) if isinstance(event, Paid) else till


@tills.on(Paid)
def take(till: Till, paid: Paid) -> list[Never]:
    """Take note."""
    return []
'''

PROSE = {
    "a docstring of the module": ('"""Tills."""', '"""All about tills,\nat length."""'),
    "no docstring of the module": ('"""Tills."""\n', ""),
    "a docstring of an event": ("Somebody paid.", "A customer has paid."),
    "a docstring of a function": ('"""Count."""', '"""Add up what was paid."""'),
    "no docstring of a function": ('    """Count."""\n', ""),
    "no docstring where nothing else is": ('"""Take care."""', "pass"),
    "a field that is explained": ("    cents: int = 0\n", '    cents: int = 0\n    """minor units"""\n'),
    "a comment": ("  # of a pound", "  # minor units"),
    "layout": ("Till(till.cents + event.cents)", "Till(\n        till.cents  +  event.cents,\n    )"),
    "quotes": ('Decider("till"', "Decider('till'"),
}
DEEDS = {
    "a sign": ("till.cents + event.cents", "till.cents - event.cents"),
    "a default": ("cents: int = 0", "cents: int = 1"),
    "a name": ('key="till")\n\n\n@', 'key="till")\n\n\nNEW = 1\n\n\n@'),
    "a type": ("cents: int  #", "cents: float  #"),
    "a condition": ("isinstance(event, Paid) else till", "isinstance(event, Event) else till"),
    "a text that is used": ('Decider("till"', 'Decider("tills"'),
}


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.syspath_prepend(tmp_path)
    yield tmp_path
    sys.modules.pop("tills_of_a_test", None)


def version_of(place: Path, code: str) -> str:
    (place / "tills_of_a_test.py").write_text(code, encoding="utf-8")
    importlib.invalidate_caches()
    sys.modules.pop("tills_of_a_test", None)
    module = importlib.import_module("tills_of_a_test")
    return code_version(Choreography("tills", [Service("till", deciders=[module.tills])]))


@pytest.mark.parametrize("change", PROSE.values(), ids=PROSE.keys())
def test_prose_and_layout_do_not_make_it_another(place: Path, change: tuple[str, str]) -> None:
    assert CODE.count(change[0]) == 1
    assert version_of(place, CODE.replace(*change)) == version_of(place, CODE)


@pytest.mark.parametrize("change", DEEDS.values(), ids=DEEDS.keys())
def test_what_the_code_does_makes_it_another(place: Path, change: tuple[str, str]) -> None:
    assert CODE.count(change[0]) == 1
    assert version_of(place, CODE.replace(*change)) != version_of(place, CODE)


def test_it_is_the_same_on_each_version_of_python_and_stays(place: Path) -> None:
    assert version_of(place, CODE) == "1abfc98d2976"
