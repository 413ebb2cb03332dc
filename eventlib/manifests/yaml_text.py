"""Plain data as YAML that people read: block style, with strings as JSON writes them, which YAML reads alike."""

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any


def documents(values: Iterable[Mapping[str, Any]]) -> str:
    """Return mappings as the documents of one file."""
    return "".join("---\n" + "\n".join(_block(value)) + "\n" for value in values)


def _block(value: Any) -> Iterator[str]:
    if isinstance(value, Mapping) and value:
        for key, inner in value.items():
            yield from _entry(f"{key}:", inner, "  ")
    elif isinstance(value, list) and value and not all(isinstance(each, str) for each in value):
        for each in value:
            first, *rest = _block(each)
            yield f"- {first}"
            yield from (f"  {line}" for line in rest)
    else:
        yield json.dumps(value, ensure_ascii=False)


def _entry(head: str, value: Any, indent: str) -> Iterator[str]:
    lines = [*_block(value)]
    nested = isinstance(value, Mapping | list) and (len(lines) > 1 or lines[0][:1] not in "[{")
    if nested:
        yield head
        yield from (f"{indent}{line}" for line in lines)
    else:
        yield f"{head} {lines[0]}"
