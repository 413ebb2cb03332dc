"""What stands on a log keeps its names, whatever its classes are called."""

import ast
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any

import pytest

from eventlib import Event
from eventlib.errors import WiringError
from eventlib.model.evolution import wire_name, wire_name_of
from eventlib.model.record import Record
from eventlib.model.schema.derive import record_of
from eventlib.model.schema.types import schema_json
from eventlib.operations.reprocessing import pending_inputs
from eventlib.operations.reprocessing.metadata import CutoverMetadata, RerunMetadata
from eventlib.registry.records import SCHEMAS as SCHEMAS_TOPIC
from eventlib.runtime.bootstrap import MARK, mark_of
from eventlib.runtime.keyed_state import KeyMetadata
from eventlib.runtime.lost_owners import LostOwners
from eventlib.runtime.parking.control import REQUESTS
from eventlib.runtime.parking.parked import SkippedInput
from eventlib.runtime.processor import stalled
from eventlib.runtime.records import JournalEntry, ParkedKey, Pause, Positions, Step
from services import shop

ROOT = Path(__file__).parents[2]
GOLDEN = Path(__file__).parent.parent / "golden" / "shops" / "internal-schemas.json"
SCHEMAS: dict[str, Any] = json.loads(GOLDEN.read_text(encoding="utf-8"))
"""The schemas of what the runtime writes for itself, as commit b0c4a11 wrote them: of each record type, without prose."""
for _name, _fields in {
    "ParkedRetryRequested": ["reason"],
    "Positions": ["topics"],
}.items():  # added since, with defaults
    SCHEMAS[_name]["fields"] += [{"name": each, "type": "string", "default": ""} for each in _fields]

_STRING = {"type": "string", "default": ""}
_NAMES = [{"name": each, **_STRING} for each in ("kind", "decider", "key", "effect", "by", "reason")]
_SINCE = [{"name": "since_ms", "type": "long", "default": 0}, {"name": "parked_before", "type": "long", "default": -1}]
_LIMIT = [{"name": "limit", **_STRING}]
_NUMBERS: list[dict[str, Any]] = [
    {"name": "per_second", "type": "double", "default": 0.0},
    {"name": "burst", "type": "long", "default": 0},
    {"name": "concurrent", "type": "long", "default": 0},
]
_ADDED: dict[str, list[Any]] = {
    "PauseRequested": [*_LIMIT, *_NUMBERS],
    "ResumeRequested": [*_LIMIT],
    "Pause": [*_SINCE, *_LIMIT, *_NUMBERS],
}
for _name, _fields_since in _ADDED.items():
    SCHEMAS[_name] = {"type": "record", "name": _name, "fields": [*_NAMES, *_fields_since]}

SCHEMAS["LostOwners"] = {
    "type": "record",
    "name": "LostOwners",
    "fields": [
        {"name": "epoch", "type": "long", "default": 0},
        {"name": "losses", "type": {"type": "map", "values": "long"}, "default": {}},
        {"name": "alone", **_STRING},
    ],
}

INTERNAL: tuple[type[Any], ...] = (
    Positions,
    ParkedKey,
    JournalEntry,
    SkippedInput,
    Pause,
    LostOwners,
    *REQUESTS,
    RerunMetadata,
    CutoverMetadata,
)


def without_prose(schema: Any) -> Any:
    if isinstance(schema, dict):
        return {name: without_prose(value) for name, value in schema.items() if name != "doc"}
    return [*map(without_prose, schema)] if isinstance(schema, list) else schema


def written(cls: type[Any]) -> Any:
    return without_prose(schema_json(record_of(cls)))


@pytest.mark.parametrize("cls", INTERNAL)
def test_what_the_runtime_writes_for_itself_is_as_it_was(cls: type[Any]) -> None:
    assert written(cls) == SCHEMAS[wire_name_of(cls)]


@contextmanager
def renamed(*classes: type[Any]) -> Iterator[None]:
    names = [cls.__name__ for cls in classes]
    for number, cls in enumerate(classes):
        cls.__name__ = f"Renamed{number}"
    try:
        yield
    finally:
        for cls, name in zip(classes, names, strict=True):
            cls.__name__ = name


@pytest.mark.parametrize("cls", INTERNAL)
def test_a_class_may_get_another_name(cls: type[Any]) -> None:
    with renamed(cls, Step):
        name, schema = wire_name_of(cls), written(cls)
    assert schema == SCHEMAS[name]


def test_the_golden_schemas_are_of_all_that_it_writes() -> None:
    assert {wire_name_of(cls) for cls in INTERNAL} == SCHEMAS.keys()


KINDS = {
    "begin", "run", "drop", "park", "release", "deadline", "answer", "stall", "edit", "discard", "refuse", "skip", "reset",
    "switch", "mend", "lose", "clock",
}  # fmt: skip
"""What a journal's steps are called."""


def test_a_journals_steps_are_called_what_they_were() -> None:
    found = set[str]()
    for file in [*(ROOT / "eventlib/runtime").rglob("*.py"), *(ROOT / "eventlib/operations").rglob("*.py")]:
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Step":
                kind = node.args[0]
                assert isinstance(kind, ast.Constant), f"{file}: a kind is written out where a step is made"
                found.add(str(kind.value))
    assert found == KINDS


def test_headers_are_called_what_they_were() -> None:
    record = Record("t", 1, 2, 3, b"k", b"v", id="i", type="T")
    assert dict(stalled(record, "away", "c0de").headers) == {"parked_reason": b"away", "parked_code": b"c0de"}
    assert mark_of("stock") == ((MARK, b"stock"),) == (("past_of", b"stock"),)
    memory = KeyMetadata({"overdue": 5}, {"id": "hash"})
    assert memory.headers == (("task", b'{"passed": {"overdue": 5}, "answered": {"id": "hash"}}'),)
    note = pending_inputs.PendingInput(1, "other", 7)
    assert pending_inputs.marked(record, note).headers == (("rerun", b"1/7/other"),)


def test_topics_are_called_what_they_were() -> None:
    (stock,) = [service for service in shop.services if service.name == "stock"]
    assert [each.name for each in (stock.changelog, stock.journal, stock.parked, stock.control)] == [
        "stock.changelog", "stock.journal", "stock.parked", "stock.control",
    ]  # fmt: skip
    assert SCHEMAS_TOPIC.name == "_schemas"


@wire_name("Colour")
class Paint(Enum):
    RED = "RED"


@wire_name("Wall")
@dataclass(frozen=True)
class Surface:
    paint: Paint = Paint.RED


@dataclass(frozen=True)
class House:
    front: Surface = Surface()


def test_states_and_their_parts_can_be_given_names() -> None:
    wall = {
        "type": "record",
        "name": "Wall",
        "fields": [{"name": "paint", "type": {"type": "enum", "name": "Colour", "symbols": ["RED"]}, "default": "RED"}],
    }
    assert written(Surface) == wall
    assert written(House)["fields"][0]["type"] == wall


def test_an_event_has_the_name_of_its_class() -> None:
    class Painted(Event, topic="walls", key="wall"):
        wall: str

    with pytest.raises(WiringError, match="an event's type is its class's name"):
        wire_name("Coloured")(Painted)
