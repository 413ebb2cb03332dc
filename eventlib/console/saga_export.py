"""The list of sagas as a file: all that a query finds, page by page, as keys, CSV or JSON."""

import csv
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from dataclasses import replace
from io import StringIO

from fastapi.responses import Response, StreamingResponse

from eventlib.console.saga_columns import Column, heads, values_of
from eventlib.json_form import json_text
from eventlib.search.saga_search import SagaPage, SagaQuery, SagaSearch

_AT_ONCE = 500
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")
"""A text that begins so would be computed by a spreadsheet."""
Lines = Callable[[Iterable[Sequence[object]], bool], str]


async def exported(search: SagaSearch, query: SagaQuery, columns: Sequence[Column], form: str) -> Response:
    """Return all that a query finds, in the form csv, json, or txt: a key a line.

    Guarantee: some hundred sagas are in memory at a time. What changes meanwhile may be there twice, or not at all.
    Raises: QueryError and ContractError, before anything is sent.
    """
    names = heads(columns)
    begin, lines, end, kind = {
        "csv": (_csv([names]), lambda rows, _: _csv(rows), "", "text/csv"),
        "json": ("[", lambda rows, is_first: _json(names, rows, is_first=is_first), "\n]\n", "application/json"),
        "txt": ("", lambda rows, _: "".join(f"{row[0]}\n" for row in rows), "", "text/plain"),
    }[form]
    first = await search.page(replace(query, limit=_AT_ONCE, after=None))
    headers = {"content-disposition": f'attachment; filename="sagas.{form}"'}
    content = _parts(search, query, first, columns, (begin, lines, end))
    return StreamingResponse(content, media_type=f"{kind}; charset=utf-8", headers=headers)


async def _parts(
    search: SagaSearch, query: SagaQuery, page: SagaPage, columns: Sequence[Column], form: tuple[str, Lines, str]
) -> AsyncIterator[str]:
    begin, lines, end = form
    yield begin
    is_first = True
    while True:
        if page.sagas:
            yield lines([values_of(saga, columns) for saga in page.sagas], is_first)
            is_first = False
        if page.next is None:
            break
        page = await search.page(replace(query, limit=_AT_ONCE, after=page.next))
    yield end


def _csv(rows: Iterable[Sequence[object]]) -> str:
    text = StringIO()
    csv.writer(text).writerows([_safe(each) for each in row] for row in rows)
    return text.getvalue()


def _safe(value: object) -> object:
    return f"'{value}" if isinstance(value, str) and value.startswith(_FORMULA) else value


def _json(names: Sequence[str], rows: Iterable[Sequence[object]], *, is_first: bool) -> str:
    objects = ",\n".join(json_text(dict(zip(names, row, strict=True))) for row in rows)
    return f"{'' if is_first else ','}\n{objects}"
