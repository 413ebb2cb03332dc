"""What is wrong with a contract, what to do about it, and two schemas side by side."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from eventlib.codec.registry import Schema
from eventlib.contracts.declared import Declared
from eventlib.errors import ContractError
from eventlib.registry.compatibility import SchemaType, unreadable
from eventlib.registry.parsing import parse


@dataclass(frozen=True, slots=True)
class Problem:
    """A rule that a contract breaks.

    `against` is the subject's version that it is about, or the place on the log; `field` is empty where it is about
    the whole.
    """

    name: str
    kind: str
    against: str
    field: str
    rule: str
    what: str
    remedy: str


_TO_READ = {
    "READER_FIELD_MISSING_DEFAULT_VALUE": "give it a default, or its former name: Annotated[…, Aliases(…)]",
    "MISSING_ENUM_SYMBOLS": "keep the symbol, or declare what it is read as: @unknown_is(…)",
    "NAME_MISMATCH": "keep the class's name",
}
"""What to do when today's class does not read what an older one wrote."""

_TO_BE_READ = {
    "READER_FIELD_MISSING_DEFAULT_VALUE": "keep it, since older code needs it; or put it into a new event type",
    "MISSING_ENUM_SYMBOLS": "put it into a new event type: older code knows no @unknown_is for it",
    "TYPE_MISMATCH": "keep the type, and add a field with a default beside it",
    "MISSING_UNION_BRANCH": "keep the types of the union, and add a field with a default beside it",
}
"""What to do when older code does not read what today's class writes."""


def remedy_of(each: Declared, rule: str, *, backward: bool) -> str:
    """Return what to do about a rule that is broken, in one direction."""
    known = (_TO_READ if backward else _TO_BE_READ).get(rule)
    upcaster = f"a new version with an upcaster: @upcasts({each.name}, version={each.version})"
    return f"{known}; or {upcaster}" if known else upcaster


def field_at(schema: str, path: str) -> str:
    """Return which field a path through a schema leads to, from outside in: `lines.sku`."""
    try:
        part: Any = json.loads(schema)
    except ValueError:  # a format whose paths name the fields themselves
        return path.strip("/").replace("/", ".")
    names = list[str]()
    steps = path.strip("/").split("/")
    for step, after in zip(steps, [*steps[1:], ""], strict=True):
        part = _inside(part, step)
        if step == "properties":
            names.append(after)
        elif isinstance(part, dict) and "name" in part and "type" in part and "fields" not in part and step.isdecimal():
            names.append(str(part["name"]))
    return ".".join(names)


def _inside(part: Any, step: str) -> Any:
    if isinstance(part, dict):
        return part.get(step)
    if isinstance(part, list) and step.isdecimal() and int(step) < len(part):
        return part[int(step)]
    return None


@dataclass(frozen=True, slots=True)
class Change:
    """A field as two schemas have it; nothing where one of them does not."""

    field: str
    before: str
    after: str


@dataclass(frozen=True, slots=True)
class Difference:
    """What two schemas differ in. `backward` is what keeps the second from reading the first's data, `forward` the other way."""

    changes: tuple[Change, ...]
    backward: tuple[str, ...]
    forward: tuple[str, ...]


def difference(before: Schema, after: Schema) -> Difference:
    """Return what two schemas of one format differ in. Raises: ContractError for two formats."""
    if before.kind != after.kind:
        raise ContractError(f"one is {before.kind}, the other {after.kind}: only schemas of one format are compared")
    old, new = _fields(before), _fields(after)
    names = dict.fromkeys([*old, *new])
    changes = [Change(name, old.get(name, ""), new.get(name, "")) for name in names if old.get(name) != new.get(name)]
    a, b = (parse(SchemaType(each.kind), each.text) for each in (before, after))
    backward, forward = unreadable(reader=b, writer=a), unreadable(reader=a, writer=b)
    return Difference(tuple(changes), tuple(each.message for each in backward), tuple(each.message for each in forward))


def _fields(schema: Schema) -> Mapping[str, str]:
    """Return a schema's fields by their paths; of a format that is no JSON, its lines."""
    try:
        return dict(_walked(json.loads(schema.text), ""))
    except ValueError:
        return {line.strip(): line.strip() for line in schema.text.splitlines() if line.strip()}


def _walked(part: Any, path: str) -> list[tuple[str, str]]:
    found = list[tuple[str, str]]()
    if isinstance(part, list):
        for each in part:
            found += _walked(each, path)
    elif isinstance(part, dict):
        for field in part.get("fields", ()):
            name = f"{path}.{field['name']}".lstrip(".")
            rest = {key: value for key, value in field.items() if key not in {"name", "type", "doc"}}
            kind = _shown(field["type"])
            found.append((name, f"{kind} {json.dumps(rest, ensure_ascii=False)}" if rest else kind))
            found += _walked(field["type"], name)
        for name, kind in part.get("properties", {}).items():
            found.append((f"{path}.{name}".lstrip("."), json.dumps(kind, ensure_ascii=False)))
        if "fields" not in part:
            for inner in ("items", "values", "type"):
                found += _walked(part.get(inner), path)
    return found


def _shown(kind: Any) -> str:  # noqa: PLR0911  one answer for each kind
    """Return a type in few words."""
    if isinstance(kind, list):
        return " | ".join(map(_shown, kind))
    if not isinstance(kind, dict):
        return str(kind)
    match kind:
        case {"logicalType": "decimal"}:
            return f"decimal({kind['precision']},{kind.get('scale', 0)})"
        case {"logicalType": str(logical)}:
            return logical
        case {"symbols": list(symbols)}:
            unknown = f", else {kind['default']}" if "default" in kind else ""
            return f"{kind['name']}({', '.join(symbols)}{unknown})"
        case {"type": "array"}:
            return f"array of {_shown(kind['items'])}"
        case {"type": "map"}:
            return f"map of {_shown(kind['values'])}"
        case {"name": str(name)}:
            return name
        case _:
            return _shown(kind["type"])
