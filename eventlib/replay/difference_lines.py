"""The difference of what was emitted and what would be, line by line."""

from collections.abc import Iterator, Mapping, Sequence
from difflib import SequenceMatcher

from pydantic_core import to_json

from eventlib.replay.report import ComparedEvent

_MOST = 24


Line = tuple[str, str]
"""A sign and a text: - was emitted, + would be emitted, and a blank for what is unchanged."""


def difference_lines(then: Sequence[ComparedEvent], now: Sequence[ComparedEvent], why: str = "") -> list[Line]:
    """Return the lines of a difference, after why there is one; unchanged events are left out."""
    lines = [(" ", why)] if why else []
    lines += _lines(then, now)
    if len(lines) > _MOST:
        lines = [*lines[:_MOST], (" ", f"… and {len(lines) - _MOST:,} lines more")]
    return lines


def _lines(then: Sequence[ComparedEvent], now: Sequence[ComparedEvent]) -> Iterator[Line]:
    if not then and now:
        yield "-", "(nothing was emitted)"
    if not now and then:
        for each in then:
            yield "-", _short(each)
        yield "+", "(nothing is emitted)"
        return
    matcher = SequenceMatcher(None, [_name(each) for each in then], [_name(each) for each in now], autojunk=False)
    for tag, i1, i2, j1, j2 in matcher.get_opcodes():
        if tag == "equal":
            for before, after in zip(then[i1:i2], now[j1:j2], strict=True):
                yield from _fields(before, after)
        else:
            yield from (("-", _short(each)) for each in then[i1:i2])
            yield from (("+", _short(each)) for each in now[j1:j2])


def _name(compared_event: ComparedEvent) -> tuple[str, str]:
    return compared_event.type, compared_event.key


def _fields(before: ComparedEvent, after: ComparedEvent) -> Iterator[Line]:
    old = {"(topic)": before.topic, **dict(_flat("", before.facts))}
    new = {"(topic)": after.topic, **dict(_flat("", after.facts))}
    names = [name for name in {**old, **new} if old.get(name, _ABSENT) != new.get(name, _ABSENT)]
    if before.error:
        yield " ", f"{before.type} {before.key} as it was emitted: {before.error}"
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
    elif path:  # an event without fields has no leaf
        yield path, value


def _short(compared_event: ComparedEvent) -> str:
    facts = " ".join(
        f"{name}={_value(value)}" for name, value in _flat("", compared_event.facts) if value != compared_event.key
    )
    return f"{compared_event.type} {compared_event.key} {compared_event.error or facts}".rstrip()


def _value(value: object) -> str:
    return value if isinstance(value, str) and value else to_json(value).decode()


_ABSENT = object()
