"""All sagas of a query as a file, page by page: keys, CSV or JSON."""

import csv
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from io import StringIO
from typing import Any, Literal

from eventlib.index.attributes import Attribute
from eventlib.json_form import json_text
from eventlib.search.saga_search import SagaPage, SagaQuery, SagaSearch
from eventlib.values import iso

_AT_ONCE = 500
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")
"""A text that begins so would be computed by a spreadsheet."""
Form = Literal["csv", "json", "txt"]


async def saga_file(
    search: SagaSearch, query: SagaQuery, attributes: Sequence[Attribute], form: Form
) -> AsyncIterator[str]:
    """Return the parts of a file: with these attributes and the currencies of amounts, or (`txt`) with a key a line.

    Times are in UTC, durations in ms, and `waiting_for` is all that a saga waits for. Guarantee: some hundred sagas are in
    memory at a time; what changes meanwhile may be there twice, or not at all. Raises: QueryError and ContractError, before
    the first part.
    """
    first = await search.page(replace(query, limit=_AT_ONCE, after=None))
    return _parts(search, query, first, _heads(attributes), form)


async def _parts(
    search: SagaSearch, query: SagaQuery, page: SagaPage, names: Sequence[str], form: Form
) -> AsyncIterator[str]:
    if form != "txt":
        yield _csv([names]) if form == "csv" else "["
    between = "\n"
    while True:
        rows = [_values(saga, names) for saga in page.sagas]
        match form:
            case "csv":
                yield _csv([_safe(each) for each in row] for row in rows)
            case "txt":
                yield "".join(f"{row[0]}\n" for row in rows)
            case "json" if rows:
                yield between + ",\n".join(json_text(dict(zip(names, row, strict=True))) for row in rows)
                between = ",\n"
        if page.next is None:
            break
        page = await search.page(replace(query, limit=_AT_ONCE, after=page.next))
    if form == "json":
        yield "\n]\n"


def _heads(attributes: Sequence[Attribute]) -> list[str]:
    found = ["saga"]
    for each in attributes:
        found.append(f"{each.name}_ms" if each.kind.type == "duration" else each.name)
        found += [each.currency] if each.currency else []
    return [*dict.fromkeys(found)]


def _values(saga: Mapping[str, Any], names: Sequence[str]) -> list[object]:
    shown = {**saga, "waiting_for": "; ".join(dict.fromkeys(each["name"] for each in saga["waits"]))}
    return [iso(value) if isinstance(value := shown[name], datetime) else value for name in names]


def _csv(rows: Any) -> str:
    text = StringIO()
    csv.writer(text).writerows(rows)
    return text.getvalue()


def _safe(value: object) -> object:
    return f"'{value}" if isinstance(value, str) and value.startswith(_FORMULA) else value
