"""A difference between what was said and what would be, as the lines of a diff."""

from collections.abc import Iterator, Mapping
from difflib import SequenceMatcher

from pydantic_core import to_json

from eventlib.replay.report import Difference, Telling

_MOST = 24

Line = tuple[str, str]
"""A sign and a text: - was said, + would be said, and a blank for what is the same."""


def difference_lines(difference: Difference) -> list[Line]:
    """Return what to show of a difference, short: events that are the same are left out."""
    lines = [(" ", difference.why)] if difference.why else []
    lines += _lines(difference)
    if len(lines) > _MOST:
        lines = [*lines[:_MOST], (" ", f"… and {len(lines) - _MOST:,} lines more")]
    return lines


def _lines(difference: Difference) -> Iterator[Line]:
    then, now = difference.then, difference.now
    if not then and now:
        yield "-", "(nothing was said)"
    if not now and then:
        for each in then:
            yield "-", _short(each)
        yield "+", "(nothing is said)"
        return
    matcher = SequenceMatcher(None, [_name(each) for each in then], [_name(each) for each in now], autojunk=False)
    for tag, i1, i2, j1, j2 in matcher.get_opcodes():
        if tag == "equal":
            for before, after in zip(then[i1:i2], now[j1:j2], strict=True):
                yield from _fields(before, after)
        else:
            yield from (("-", _short(each)) for each in then[i1:i2])
            yield from (("+", _short(each)) for each in now[j1:j2])


def _name(telling: Telling) -> tuple[str, str]:
    return telling.type, telling.key


def _fields(before: Telling, after: Telling) -> Iterator[Line]:
    old = {"(topic)": before.topic, **dict(_flat("", before.facts))}
    new = {"(topic)": after.topic, **dict(_flat("", after.facts))}
    names = [name for name in {**old, **new} if old.get(name, _ABSENT) != new.get(name, _ABSENT)]
    if before.error:
        yield " ", f"{before.type} {before.key} as it was said: {before.error}"
    elif names:
        yield " ", f"{before.type} {before.key}"
    for name in [] if before.error else names:
        if name in old:
            yield "-", f"  {name}: {_value(old[name])}"
        if name in new:
            yield "+", f"  {name}: {_value(new[name])}"


def _flat(path: str, value: object) -> Iterator[tuple[str, object]]:
    """Yield the leaves of a value with their paths: `lines[0].quantity`."""
    if isinstance(value, Mapping) and value:
        for name, each in value.items():
            yield from _flat(f"{path}.{name}" if path else str(name), each)
    elif isinstance(value, list) and value:
        for index, each in enumerate(value):
            yield from _flat(f"{path}[{index}]", each)
    else:
        yield path, value


def _short(telling: Telling) -> str:
    facts = " ".join(f"{name}={_value(value)}" for name, value in _flat("", telling.facts) if value != telling.key)
    return f"{telling.type} {telling.key} {telling.error or facts}".rstrip()


def _value(value: object) -> str:
    return value if isinstance(value, str) and value else to_json(value).decode()


_ABSENT = object()
