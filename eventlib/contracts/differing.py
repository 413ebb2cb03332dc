"""Two schemas side by side: which fields differ, and whether each reads what the other has written."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from eventlib.codec.registry import Schema
from eventlib.errors import ContractError
from eventlib.registry.compatibility import SchemaType, unreadable
from eventlib.registry.parsing import parse


@dataclass(frozen=True, slots=True)
class Change:
    """A field as two schemas have it; nothing where one of them does not."""

    field: str
    before: str
    after: str


@dataclass(frozen=True, slots=True)
class Difference:
    """What two schemas differ in. `backward` says what keeps the second from reading the first's data, `forward` the other way."""

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
