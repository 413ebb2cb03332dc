"""The query language of searches: text in, a tree of conditions out, with the place of each."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Literal, NamedTuple

from eventlib.errors import ContractError
from eventlib.index.attributes import KEYWORDS
from eventlib.values import unsafe_in

MOST_TEXT = 4_000
"""How long a query may be, in characters."""
MOST_TERMS = 200
MOST_DEPTH = 40
Operator = Literal["=", "!=", "<", "<=", ">", ">=", "in", "like", "is null"]


class QueryError(ContractError):
    """A query cannot be answered as it is written; `column` (from 1) of its `part`, where or order_by, is where it is wrong."""

    part = "where"
    expected: frozenset[str] = frozenset()
    """If the query does not parse, the tokens that may be at that place: keywords, signs, and kinds of values."""
    compared = ""
    """The attribute whose comparison ends there."""

    def __init__(self, sentence: str, column: int) -> None:
        self.sentence = sentence
        self.column = column
        super().__init__(f"column {column}: {sentence}")


@dataclass(frozen=True, slots=True)
class Duration:
    """A length of time."""

    ms: int


@dataclass(frozen=True, slots=True)
class Value:
    """A value as it was written, and where."""

    value: str | bool | Decimal | Duration
    column: int


@dataclass(frozen=True, slots=True)
class Comparison:
    """An attribute compared with values; none for `is null`."""

    name: str
    column: int
    operator: Operator
    values: tuple[Value, ...] = ()


@dataclass(frozen=True, slots=True)
class Not:
    """The term does not hold."""

    term: "Term"


@dataclass(frozen=True, slots=True)
class Every:
    """All terms hold."""

    terms: tuple["Term", ...]


@dataclass(frozen=True, slots=True)
class Some:
    """At least one term holds."""

    terms: tuple["Term", ...]


Term = Comparison | Not | Every | Some


@dataclass(frozen=True, slots=True)
class Order:
    """The attribute that a result is ordered by."""

    name: str
    descending: bool = False
    column: int = 1


def literal(text: str) -> str:
    """Return a text as a query writes it."""
    return "'" + text.replace("'", "''") + "'"


def parse_where(text: str) -> Term:
    """Return the conditions in a text. Raises: QueryError, with the place."""
    parser = _Parser(text)
    found = parser.some()
    parser.take("the end", beside=("and", "or"))
    return found


def parse_order(text: str) -> Order:
    """Return an order: an attribute, with `asc` or `desc`. Raises: QueryError, with the place."""
    parser = _Parser(text)
    name = parser.take(NAME)
    direction = parser.taken("asc", "desc")
    parser.take("the end", beside=() if direction else ("asc", "desc"))
    return Order(name.text.lower(), direction == "desc", name.column)


NAME, SIGN, TEXT, _NUMBER, _DURATION = (
    "an attribute",
    "a comparison",
    "a text in '…'",
    "a number",
    "a duration such as 2h",
)
TOKEN = re.compile(
    r"""[ \t\r\n]*(?:
    (?P<name>[A-Za-z_][A-Za-z0-9_]*) | (?P<text>'(?:[^']|'')*') | (?P<sign><=|>=|<>|!=|=|<|>) | (?P<other>[(),]) |
    (?P<duration>[0-9]{1,9}(?:\.[0-9]{1,3})?(?:ms|s|m|h|d)(?![A-Za-z0-9_])) |
    (?P<number>[+-]?[0-9]{1,40}(?:\.[0-9]{1,40})?(?![A-Za-z0-9_.])) | (?P<end>\Z) | (?P<odd>.))""",
    re.VERBOSE | re.DOTALL,
)
_KINDS = {"name": NAME, "text": TEXT, "sign": SIGN, "duration": _DURATION, "number": _NUMBER, "end": "the end"}
_SIGNS: Mapping[str, Operator] = {
    "=": "=", "!=": "!=", "<>": "!=", "<": "<", "<=": "<=", ">": ">", ">=": ">=",
}  # fmt: skip
_VALUES = (TEXT, _NUMBER, _DURATION, "true", "false")
_UNITS_MS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


class _Token(NamedTuple):
    """A part of a query: `kind` is what error messages call it; of keywords and brackets, that is the text."""

    kind: str
    text: str
    column: int


class _Parser:
    """Reads a query from left to right, one token ahead; refuses what is too long, too deep or too much."""

    def __init__(self, text: str) -> None:
        if len(text) > MOST_TEXT:
            raise QueryError(f"a query has {MOST_TEXT:,} characters at most, and this one has {len(text):,}", MOST_TEXT)
        self._text = text
        self._end = self._depth = self._size = 0
        self._compared = ""
        self._token: _Token | None = None

    def some(self) -> Term:
        """Return `a or b or c`."""
        terms = [self._every()]
        while self.taken("or"):
            terms.append(self._every())
        return terms[0] if len(terms) == 1 else Some(tuple(terms))

    def taken(self, *kinds: str) -> str | None:
        """Take the next token if it is one of these; return its kind."""
        token = self._next()
        if token.kind not in kinds:
            return None
        self._token = None
        return token.kind

    def take(self, *kinds: str, beside: tuple[str, ...] = ()) -> _Token:
        """Take the next token, which has to be one of these. `beside` are those that would have been taken before."""
        token = self._next()
        if token.kind not in kinds:
            raise self._refusal(token, {*kinds, *beside})
        self._token = None
        return token

    def _every(self) -> Term:
        terms = [self._negation()]
        while self.taken("and"):
            terms.append(self._negation())
        return terms[0] if len(terms) == 1 else Every(tuple(terms))

    def _negation(self) -> Term:
        token = self.take("not", "(", NAME)
        if token.kind == NAME:
            return self._comparison(token)
        self._depth += 1
        if self._depth >= MOST_DEPTH:
            raise QueryError(f"conditions are nested {MOST_DEPTH} deep at most", 1)
        found: Term = Not(self._negation()) if token.kind == "not" else self.some()
        if token.kind == "(":
            self.take(")", beside=("and", "or"))
        self._depth -= 1
        return found

    def _comparison(self, name: _Token) -> Term:
        self._compared = name.text.lower()
        found = self.take(SIGN, "in", "like", "between", "is", "not")
        is_negated = found.kind == "not"
        if is_negated:
            found = self.take("in", "like", "between")
        match found.kind:
            case "in":
                self.take("(")
                values = [self._value()]
                while self.take(",", ")").kind == ",":
                    values.append(self._value())
                made: Term = self._of(name, "in", *values)
            case "like":
                made = self._of(name, "like", self._literal(self.take(TEXT)))
            case "between":
                least = self._of(name, ">=", self._value())
                self.take("and")
                made = Every((least, self._of(name, "<=", self._value())))
            case "is":
                is_negated = self.taken("not") is not None
                self.take("null", beside=() if is_negated else ("not",))
                made = self._of(name, "is null")
            case _:
                made = self._of(name, _SIGNS[found.text], self._value())
        return Not(made) if is_negated else made

    def _of(self, name: _Token, operator: Operator, *values: Value) -> Comparison:
        self._size += 1 + len(values)
        if self._size > MOST_TERMS:
            raise QueryError(f"a query has {MOST_TERMS} comparisons and values at most", MOST_TERMS)
        return Comparison(name.text.lower(), name.column, operator, values)

    def _value(self) -> Value:
        return self._literal(self.take(*_VALUES))

    def _literal(self, token: _Token) -> Value:
        kind, text, column = token
        if kind == TEXT:
            text = text[1:-1].replace("''", "'")
            if (odd := unsafe_in(text)) is not None:
                raise QueryError(f"this text has a control character, {odd}", column)
            return Value(text, column)
        if kind == _NUMBER:
            return Value(Decimal(text), column)
        if kind == _DURATION:
            number = text.rstrip("smhd")
            return Value(Duration(int(Decimal(number) * _UNITS_MS[text[len(number) :]])), column)
        return Value(kind == "true", column)

    def _next(self) -> _Token:
        if self._token is None:
            found = TOKEN.match(self._text, self._end)
            assert found is not None  # noqa: S101  one of its branches is any character, another the end
            name, text = found.lastgroup or "", found[found.lastgroup or ""]
            kind = text.lower() if name == "other" or text.lower() in KEYWORDS else _KINDS.get(name, "")
            self._token, self._end = _Token(kind, text, found.start(name) + 1), found.end()
        return self._token

    def _refusal(self, token: _Token, expected: set[str]) -> QueryError:
        if token.kind == "" and token.text == "'":
            return QueryError("this text has no end: close it with ' (a ' within is written '')", token.column)
        rest = self._text[token.column - 1 :]
        if token.kind == "" and token.text == '"':
            inside, _, _ = rest[1:].partition('"')
            return QueryError(f"write texts in single quotes: {literal(inside)}", token.column)
        if token.kind == NAME and TEXT in expected:
            return QueryError(f"write texts in single quotes: {literal(token.text)}", token.column)
        shown = token.text if token.kind else rest[:20]
        what = "it ends too early" if token.kind == "the end" else f"{shown!r:.60} cannot stand here"
        error = QueryError(f"{what}: expected is {', '.join(sorted(expected))}", token.column)
        error.expected, error.compared = frozenset(expected), self._compared
        return error
