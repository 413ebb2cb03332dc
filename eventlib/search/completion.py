"""Completes a query: names, operators and values that may be next."""

from collections.abc import Iterator
from dataclasses import dataclass

from eventlib.index.attributes import Attribute, declared_in
from eventlib.search.known_values import values_of
from eventlib.search.language import NAME, SIGN, TEXT, TOKEN, QueryError, parse_where
from eventlib.search.meanings import bare_text
from eventlib.search.saga_search import SagaSearch

_MOST = 12
_WORDS = ("and", "or", "not", "null", "true", "false")


@dataclass(frozen=True, slots=True)
class Option:
    """A text that may be next in a query, and what it is."""

    text: str
    about: str


def completed(search: SagaSearch, text: str) -> tuple[str, list[Option]]:
    """Return how much of an unfinished query stays, and what may follow it there."""
    kept, begun, is_text = _begun(text)
    try:
        parse_where(kept)
        expected, compared = frozenset({"and", "or"}), ""
    except QueryError as error:
        at_end = error.column > len(kept.rstrip())
        expected, compared = (error.expected if at_end else frozenset()), error.compared
    options = [*_options(search, expected, compared, begun, is_text=is_text)]
    if (bare := bare_text(search, text)) is not None:
        kept, options = "", [*(options if bare == begun else ()), *_by_value(search, bare)]
    space = " " if kept and not kept[-1].isspace() and kept[-1] != "(" else ""
    return kept + space, [*dict.fromkeys(options)][:_MOST]


def _begun(text: str) -> tuple[str, str, bool]:
    """Return a text without its last token if that is not finished, this token, and whether it is a text in quotes."""
    at = 0
    while found := TOKEN.match(text, at):
        kind = found.lastgroup or ""
        shown, at = found[kind], found.end()
        if kind == "end":
            break
        if kind == "odd" and shown == "'":
            return text[: found.start(kind)], text[at:].replace("''", "'"), True
        if at == len(text) and kind in {"name", "number", "duration"}:
            return text[: found.start(kind)], shown, False
    return text, "", False


def _options(
    search: SagaSearch, expected: frozenset[str], compared: str, begun: str, *, is_text: bool
) -> Iterator[Option]:
    known = {each.name: each for each in search.catalogue}
    if NAME in expected and not is_text:
        names = sorted(
            known.values(),
            key=lambda each: (
                not each.name.startswith(begun.lower()),
                each.name not in declared_in(search.log.choreography),
            ),
        )
        yield from (
            Option(each.name, f"{each.kind.type}: {each.about}") for each in names if begun.lower() in each.name
        )
    if SIGN in expected and compared in known:
        yield from (Option(each, "") for each in _operators(known[compared]) if each.startswith(begun.lower()))
    if TEXT in expected and compared in known:
        yield from (Option(each, "") for each in values_of(search, known[compared], begun))
    if not is_text:
        words = expected.intersection(_WORDS).difference({"true", "false"} if TEXT in expected else ())
        yield from (Option(each, "") for each in sorted(words) if each.startswith(begun.lower()))


def _operators(attribute: Attribute) -> list[str]:
    has_order = attribute.kind.type != "boolean" and not attribute.kind.choices
    return [
        *("=", "!="),
        *(("<", "<=", ">", ">=", "between") if has_order and attribute.kind.type != "text" else ()),
        *(("like",) if attribute.kind.type == "text" else ()),
        *("in (", "is null", "is not null"),
    ]


def _by_value(search: SagaSearch, begun: str) -> Iterator[Option]:
    """Yield comparisons with values that begin so: of what is declared, of keys, and of types of events."""
    for attribute in search.catalogue:
        if attribute.name in {"saga", "event_type", "outcome", "state", *declared_in(search.log.choreography)}:
            for value in values_of(search, attribute, begun)[:3]:
                yield Option(f"{attribute.name} = {value}", "")
