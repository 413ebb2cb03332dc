"""What is wrong with a contract, and what to do about it."""

import json
from dataclasses import dataclass
from typing import Any

from eventlib.contracts.declared import Declared


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
    "MISSING_ENUM_SYMBOLS": "keep the symbol, or say what it is read as: @unknown_is(…)",
    "NAME_MISMATCH": "keep the class's name",
}
"""What to do when today's class does not read what an older one wrote."""

_TO_BE_READ = {
    "READER_FIELD_MISSING_DEFAULT_VALUE": "keep it, since older code needs it; or say it in a new event type",
    "MISSING_ENUM_SYMBOLS": "say it in a new event type: older code knows no @unknown_is for it",
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
