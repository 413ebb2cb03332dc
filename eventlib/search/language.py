"""The query language of searches: text in, a tree of conditions out, with the place of each."""

from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from functools import lru_cache
from typing import Any, Literal, NamedTuple

from lark import Lark, Token, Transformer, UnexpectedCharacters, UnexpectedToken

from eventlib.search.terms import (
    KEYWORDS,
    Comparison,
    Duration,
    Every,
    Not,
    Operator,
    Order,
    QueryError,
    Some,
    Term,
    Value,
)
from eventlib.values import unsafe_in

MOST_TEXT = 4_000
"""How long a query may be, in characters."""
MOST_TERMS = 200
MOST_DEPTH = 40

_GRAMMAR = r"""
start: any_of
?any_of: all_of (_OR all_of)*
?all_of: negation (_AND negation)*
?negation: _NOT negation -> not_
    | comparison
    | "(" any_of ")" -> nested
comparison: NAME OPERATOR value -> compared
    | NAME _IN "(" value ("," value)* ")" -> within
    | NAME _NOT _IN "(" value ("," value)* ")" -> not_within
    | NAME _LIKE STRING -> alike
    | NAME _NOT _LIKE STRING -> not_alike
    | NAME _BETWEEN value _AND value -> between
    | NAME _NOT _BETWEEN value _AND value -> not_between
    | NAME _IS _NULL -> missing
    | NAME _IS _NOT _NULL -> present
value: STRING | NUMBER | DURATION | TRUE | FALSE

order: NAME (ASC | DESC)?

_AND.2: /and(?![a-z0-9_])/i
_OR.2: /or(?![a-z0-9_])/i
_NOT.2: /not(?![a-z0-9_])/i
_IN.2: /in(?![a-z0-9_])/i
_LIKE.2: /like(?![a-z0-9_])/i
_BETWEEN.2: /between(?![a-z0-9_])/i
_IS.2: /is(?![a-z0-9_])/i
_NULL.2: /null(?![a-z0-9_])/i
TRUE.2: /true(?![a-z0-9_])/i
FALSE.2: /false(?![a-z0-9_])/i
ASC.2: /asc(?![a-z0-9_])/i
DESC.2: /desc(?![a-z0-9_])/i
OPERATOR: "<=" | ">=" | "<>" | "!=" | "=" | "<" | ">"
NAME: /[a-z_][a-z0-9_]*/i
STRING: /'(?:[^']|'')*'/
DURATION.1: /[0-9]{1,9}(?:\.[0-9]{1,3})?(?:ms|s|m|h|d)(?![a-z0-9_])/
NUMBER: /[+-]?[0-9]{1,40}(?:\.[0-9]{1,40})?(?![a-z0-9_.])/
%ignore /[ \t\r\n]+/
"""
_SHOWN = {
    **{f"_{word.upper()}": word for word in KEYWORDS},
    "TRUE": "true",
    "FALSE": "false",
    "ASC": "asc",
    "DESC": "desc",
    "$END": "the end",
    "NAME": "an attribute",
    "OPERATOR": "a comparison",
    "STRING": "a text in '…'",
    "NUMBER": "a number",
    "DURATION": "a duration such as 2h",
    "LPAR": "(",
    "RPAR": ")",
    "COMMA": ",",
}
_OPERATORS: Mapping[str, Operator] = {
    "=": "=", "!=": "!=", "<>": "!=", "<": "<", "<=": "<=", ">": ">", ">=": ">=",
}  # fmt: skip
_UNITS_MS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


def parse_where(text: str) -> Term:
    """Return the conditions in a text. Raises: QueryError, with the place."""
    found: Term = _parsed(text, "start")
    return found


def parse_order(text: str) -> Order:
    """Return an order: an attribute, with `asc` or `desc`. Raises: QueryError, with the place."""
    found: Order = _parsed(text, "order")
    return found


def _parsed(text: str, start: Literal["start", "order"]) -> Any:
    if len(text) > MOST_TEXT:
        raise QueryError(f"a query has {MOST_TEXT:,} characters at most, and this one has {len(text):,}", MOST_TEXT)
    try:
        return _parser().parse(text, start=start)
    except UnexpectedToken as error:
        ends = error.token.type == "$END"
        what = "it ends too early" if ends else f"{str(error.token)!r:.60} cannot stand here"
        column = len(text) + 1 if ends else (error.token.start_pos or 0) + 1
        raise QueryError(f"{what}: expected is {_expected(error.accepts or error.expected)}", column) from error
    except UnexpectedCharacters as error:
        raise _odd_character(error, text) from error


def _odd_character(error: UnexpectedCharacters, text: str) -> QueryError:
    at = error.pos_in_stream or 0
    if text[at] == "'":
        return QueryError("this text has no end: close it with ' (a ' within is written '')", at + 1)
    if text[at] == '"':
        return QueryError("texts stand in single quotes: 'France'", at + 1)
    return QueryError(f"{text[at : at + 20]!r} cannot stand here: expected is {_expected(error.allowed or ())}", at + 1)


def _expected(terminals: Iterable[str]) -> str:
    return ", ".join(sorted({_SHOWN.get(each, each) for each in terminals}))


class _Part(NamedTuple):
    """A term, with how deep it is, and how many comparisons and values it has."""

    term: Term
    depth: int
    size: int


class _Tree(Transformer[Token, Any]):
    """Makes terms while the text is parsed, so that nothing is recursive; refuses what is too deep or too much."""

    def start(self, parts: Sequence[_Part]) -> Term:
        """Return the whole query."""
        return parts[0].term

    def any_of(self, parts: Sequence[_Part]) -> _Part:
        """Return `a or b or c`."""
        return _joined(Some, parts)

    def all_of(self, parts: Sequence[_Part]) -> _Part:
        """Return `a and b and c`."""
        return _joined(Every, parts)

    def nested(self, parts: Sequence[_Part]) -> _Part:
        """Return `(a)`."""
        return _deeper(parts[0].term, parts)

    def not_(self, parts: Sequence[_Part]) -> _Part:
        """Return `not a`."""
        return _deeper(Not(parts[0].term), parts)

    def compared(self, parts: Sequence[Any]) -> _Part:
        """Return `name = value`, or another comparison."""
        name, operator, value = parts
        return _part(name, _OPERATORS[operator], [value])

    def within(self, parts: Sequence[Any]) -> _Part:
        """Return `name in (…)`."""
        return _part(parts[0], "in", parts[1:])

    def not_within(self, parts: Sequence[Any]) -> _Part:
        """Return `name not in (…)`."""
        return _negated(self.within(parts))

    def alike(self, parts: Sequence[Any]) -> _Part:
        """Return `name like '…'`."""
        return _part(parts[0], "like", [_literal(parts[1])])

    def not_alike(self, parts: Sequence[Any]) -> _Part:
        """Return `name not like '…'`."""
        return _negated(self.alike(parts))

    def between(self, parts: Sequence[Any]) -> _Part:
        """Return `name between a and b`, both of them included."""
        name, least, most = parts
        return _joined(Every, [_part(name, ">=", [least]), _part(name, "<=", [most])])

    def not_between(self, parts: Sequence[Any]) -> _Part:
        """Return `name not between a and b`."""
        return _negated(self.between(parts))

    def missing(self, parts: Sequence[Any]) -> _Part:
        """Return `name is null`."""
        return _part(parts[0], "is null", [])

    def present(self, parts: Sequence[Any]) -> _Part:
        """Return `name is not null`."""
        return _negated(self.missing(parts))

    def value(self, parts: Sequence[Token]) -> Value:
        """Return a value."""
        return _literal(parts[0])

    def order(self, parts: Sequence[Token]) -> Order:
        """Return an order."""
        return Order(str(parts[0]).lower(), len(parts) > 1 and parts[1].type == "DESC", _column(parts[0]))


def _part(name: Token, operator: Operator, values: Sequence[Value]) -> _Part:
    return _Part(Comparison(str(name).lower(), _column(name), operator, tuple(values)), 1, 1 + len(values))


def _negated(part: _Part) -> _Part:
    return _Part(Not(part.term), part.depth + 1, part.size)


def _joined(kind: type[Every | Some], parts: Sequence[_Part]) -> _Part:
    size = sum(part.size for part in parts)
    if size > MOST_TERMS:
        raise QueryError(f"a query has {MOST_TERMS} comparisons and values at most", MOST_TERMS)
    return _Part(kind(tuple(part.term for part in parts)), max(part.depth for part in parts) + 1, size)


def _deeper(term: Term, parts: Sequence[_Part]) -> _Part:
    depth = parts[0].depth + 1
    if depth > MOST_DEPTH:
        raise QueryError(f"conditions are nested {MOST_DEPTH} deep at most", 1)
    return _Part(term, depth, parts[0].size)


def _literal(token: Token) -> Value:
    column, text = _column(token), str(token)
    match token.type:
        case "STRING":
            text = text[1:-1].replace("''", "'")
            if (odd := unsafe_in(text)) is not None:
                raise QueryError(f"this text has a control character, {odd}", column)
            return Value(text, column)
        case "NUMBER":
            return Value(Decimal(text), column)
        case "DURATION":
            number = text.rstrip("smhd")
            return Value(Duration(int(Decimal(number) * _UNITS_MS[text[len(number) :]])), column)
        case _:
            return Value(text.lower() == "true", column)


def _column(token: Token) -> int:
    return (token.start_pos or 0) + 1


@lru_cache(maxsize=1)
def _parser() -> Lark:
    return Lark(
        _GRAMMAR,
        parser="lalr",
        lexer="contextual",
        start=["start", "order"],
        maybe_placeholders=False,
        transformer=_Tree(),
    )
