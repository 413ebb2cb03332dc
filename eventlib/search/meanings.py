"""The meanings of a text without a comparison: a key, an id, the type of an event, or the value of an attribute."""

import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass

from eventlib.index.attributes import declared_in
from eventlib.model.event import contract_of
from eventlib.search.language import QueryError, literal, parse_where
from eventlib.search.saga_search import SagaSearch
from eventlib.values import snake_case

_MOST = 1_000
_COUNTED_S = 0.03
_WORD = re.compile(r"[\w.+-]+")
_NAMES = ("saga", "event_id", "correlation_id", "event_type", "state", "outcome", "reason", "waiting_for")


@dataclass(frozen=True, slots=True)
class Meaning:
    """A query that a text may mean, how many sagas it finds, and whether there may be more."""

    where: str
    count: int
    is_more: bool


def bare_text(search: SagaSearch, text: str) -> str | None:
    """Return a text that is not a query: one without a comparison that does not begin with an attribute, or all in quotes."""
    bare = text.strip()
    if len(bare) > 2 and bare[0] == bare[-1] == "'" and "'" not in bare[1:-1].replace("''", ""):  # noqa: PLR2004  the quotes
        return bare[1:-1].replace("''", "'")
    first = bare.lstrip("( ").removeprefix("not").split(maxsplit=1)[:1]
    if not bare or set(bare) & set("=<>!") or {*map(str.lower, first)} <= {each.name for each in search.catalogue}:
        return None
    with suppress(QueryError):
        parse_where(bare)
        return None
    return bare


def meanings(search: SagaSearch, text: str) -> list[Meaning]:
    """Return the queries that a bare text may mean and that find sagas: by `_NAMES`, then by declared attributes.

    Cost: some milliseconds for each, whatever the number of sagas.
    """
    found = list[Meaning]()
    for where in dict.fromkeys(_candidates(search, text)):
        with suppress(QueryError):  # a value of another type
            count, is_more = search.count(where, most=_MOST, within_s=_COUNTED_S)
            is_that_key = where.startswith("saga like") and count == 1 and found and found[0].where.startswith("saga =")
            if count and not is_that_key:
                found.append(Meaning(where, count, is_more))
    return found


def _candidates(search: SagaSearch, text: str) -> Iterator[str]:
    types = {contract_of(each).type.casefold(): contract_of(each).type for each in search.log.choreography.events}
    as_snake = snake_case(text.replace(" ", "_")).strip("_")
    for name in _NAMES:
        values = {
            "event_type": [types.get(text.casefold(), text)],
            "outcome": [text, as_snake],
            "state": [text, as_snake],
        }
        for value in values.get(name, [text]):
            yield f"{name} = {literal(value)}"
    yield f"saga like {literal(_escaped(text))[:-1]}%'"
    for name, declared in declared_in(search.log.choreography).items():
        kind = declared.field.kind
        choices = [each for each in kind.choices if each.casefold() == text.casefold()]
        if kind.type in {"text", "time", "date"}:
            yield f"{name} = {literal(choices[0] if choices else text)}"
        elif _WORD.fullmatch(text):
            yield f"{name} = {text}"


def _escaped(text: str) -> str:
    return "".join(f"\\{each}" if each in "%_" else each for each in text)
