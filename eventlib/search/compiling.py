"""Compiles conditions on the attributes of a catalogue to SQL with parameters: nothing of a query's text becomes SQL but names that a catalogue has."""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import date
from decimal import Decimal

from eventlib.errors import ContractError
from eventlib.ground.arguments import did_you_mean
from eventlib.index.attributes import OF_SAGAS, Attribute, declared_in
from eventlib.model.choreography import Choreography
from eventlib.search.language import (
    Comparison,
    Duration,
    Every,
    Not,
    Operator,
    QueryError,
    Some,
    Term,
    Value,
    literal,
)
from eventlib.values import time_of, to_ms

_LARGEST = 2**63 - 1
_MOST_WILDCARDS = 10
LAST = "\U0010ffff" * 2
"""Behind all texts that begin with what is before it."""
_MIRRORED: dict[Operator, Operator] = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
_GLOB_OF_TEXT = {"*": "[*]", "?": "[?]", "[": "[[]"}
_GLOB = {"%": "*", "_": "?", **_GLOB_OF_TEXT}
Stored = str | int | float


class Catalogue:
    """The attributes of one kind of thing (`what`), by name."""

    def __init__(
        self, what: str, attributes: Iterable[Attribute], example: Callable[[Attribute], str | None] = lambda _: None
    ) -> None:
        self.what = what
        self.example = example
        """Returns a value that an attribute has, as a query writes it, for messages; None where none is known."""
        self._known = {each.name: each for each in attributes}

    def __iter__(self) -> Iterator[Attribute]:
        return iter(self._known.values())

    def named(self, name: str, column: int) -> Attribute:
        """Return an attribute. Raises: QueryError, naming those that there are."""
        found = self._known.get(name)
        if found is None:
            meant = did_you_mean(name, self._known)
            raise QueryError(f"{self.what} have no {name!r}: {meant}they have {', '.join(sorted(self._known))}", column)
        return found

    def sorting(self, name: str, column: int) -> Attribute:
        """Return an attribute that can be ordered by. Raises: QueryError, naming those that can."""
        found = self.named(name, column)
        if not found.index:
            can = ", ".join(sorted(each.name for each in self if each.index))
            raise QueryError(f"{self.what} cannot be ordered by {name}: they can by {can}", column)
        return found


def sagas_of(choreography: Choreography) -> Catalogue:
    """Return what queries can name of a choreography's sagas. Raises: WiringError."""
    return Catalogue("sagas", [*OF_SAGAS, *(each.attribute for each in declared_in(choreography).values())])


@dataclass(frozen=True, slots=True)
class Compiled:
    """A condition on a row `s`, with the values of its parameters, and what it is driven by.

    `drivers` are queries of the rowids that may meet it, for each of its parts that an index serves; every row that meets
    it is in each of them.
    """

    sql: str
    values: dict[str, Stored]
    drivers: tuple[str, ...] = ()

    @property
    def is_open(self) -> bool:
        """Whether only open sagas meet it."""
        return _OPEN in self.drivers


@dataclass
class _Compiler:
    catalogue: Catalogue
    now_ms: int
    values: dict[str, Stored] = field(default_factory=dict)

    def term(self, term: Term) -> str:
        match term:
            case Comparison():
                return self.comparison(term)
            case Not():
                return f"(NOT {self.term(term.term)})"
            case Every():
                return f"({' AND '.join(map(self.term, term.terms)) or '1'})"
            case Some():
                return f"({' OR '.join(map(self.term, term.terms))})"

    def comparison(self, found: Comparison) -> str:
        attribute, operator, values = self.meaning(found)
        if not attribute.of:
            return self.condition(attribute, operator, values)
        if operator in {"!=", "is null"}:
            return f"(NOT {self.exists(attribute, '=' if operator == '!=' else operator, values)})"
        return self.exists(attribute, operator, values)

    def exists(self, attribute: Attribute, operator: Operator, values: list[Stored]) -> str:
        return f"(EXISTS (SELECT 1 FROM {self.many(attribute, operator, values)} AND m.saga = s.saga))"  # noqa: S608  names of a catalogue

    def many(self, attribute: Attribute, operator: Operator, values: list[Stored]) -> str:
        """Return the rows of a table with many that meet a comparison; those with any value for `is null`."""
        table, _, name = attribute.of.partition("/")
        named = f"m.name = {self.put(name)} AND " if name else ""
        has = f"({attribute.sql} IS NOT NULL)"
        return (
            f"{table} AS m WHERE {named}{has if operator == 'is null' else self.condition(attribute, operator, values)}"
        )

    def condition(self, attribute: Attribute, operator: Operator, values: list[Stored]) -> str:
        sql = f"({attribute.sql})"
        match operator:
            case "is null":
                return f"({sql} IS NULL)"
            case "in":
                return f"({sql} IN ({', '.join(map(self.put, values))}))"
            case "like":
                return f"({sql} GLOB {self.put(values[0])})"
            case _:
                return f"({sql} {operator} {self.put(values[0])})"

    def put(self, value: Stored) -> str:
        name = f"v{len(self.values)}"
        self.values[name] = value
        return f":{name}"

    def meaning(self, found: Comparison) -> tuple[Attribute, Operator, list[Stored]]:
        """Return what is compared with what, checked against the types. Raises: QueryError."""
        attribute = self.catalogue.named(found.name, found.column)
        self.check_operator(attribute, found)
        if found.operator == "like":
            return attribute, "like", [_glob(found.values[0])]
        values = [self.stored(attribute, each) for each in found.values]
        if attribute.name == "age":  # so that the index on the times serves it
            ages = [self.now_ms - value for value in values if isinstance(value, int)]
            return attribute, _MIRRORED.get(found.operator, found.operator), [*ages]
        return attribute, found.operator, values

    def check_operator(self, attribute: Attribute, found: Comparison) -> None:
        kind = attribute.kind
        if found.operator == "like" and kind.type != "text":
            raise QueryError(f"{self.is_a(attribute)}, and `like` is for texts", found.column)
        if found.operator in _MIRRORED and (kind.type == "boolean" or kind.choices):
            raise QueryError(f"{attribute.name} has no order: compare it by =, !=, or in", found.column)
        if found.operator == "is null" and attribute.name in _ALWAYS:
            raise QueryError(f"every one has {attribute.name}", found.column)

    def is_a(self, attribute: Attribute, meant: str = "") -> str:
        """Return what values of an attribute are, with one that may have been `meant`, and one that there is."""
        kind, there = attribute.kind, self.catalogue.example(attribute)
        example = meant or (_EXAMPLES["duration"] if kind.type == "duration" else there or _EXAMPLES.get(kind.type, ""))
        also = f" (one that there is: {there})" if meant and there and meant != there else ""
        return f"{attribute.name} is {_KINDS[kind.type]}{f': write {example}' if example else ''}{also}"

    def stored(self, attribute: Attribute, found: Value) -> Stored:
        """Return a value as the index has it. Raises: QueryError when it is of another type."""
        value, kind = found.value, attribute.kind
        match kind.type, value:
            case "text", str():
                if kind.choices and value not in kind.choices:
                    raise QueryError(
                        f"{attribute.name} is never {value!r}: it is {', '.join(kind.choices)}", found.column
                    )
                return value
            case "boolean", bool():
                return int(value)
            case "duration", Duration():
                return value.ms
            case (("integer" | "decimal" | "number"), Decimal()):
                return _number(attribute, value, found.column)
            case "time", str():
                with suppress(ContractError, OverflowError):
                    return to_ms(time_of(value))
            case "date", str():
                with suppress(ValueError):
                    return date.fromisoformat(value).isoformat()
        is_unquoted = kind.type == "text" and not kind.choices and isinstance(value, Decimal)
        raise QueryError(self.is_a(attribute, literal(str(value)) if is_unquoted else ""), found.column)

    def driver(self, found: Comparison) -> str | None:
        """Return the rowids that may meet a comparison, if an index has them."""
        attribute, operator, values = self.meaning(found)
        if attribute.name == "status":
            return self.of_status(found)
        if operator in {"!=", "is null"} or not attribute.drives:
            return None
        if attribute.of:
            rows = self.many(attribute, "is null" if operator == "like" else operator, values)
            return f"SELECT s.rowid FROM (SELECT DISTINCT m.saga FROM {rows} LIMIT :most) AS m CROSS JOIN _sagas AS s ON s.saga = m.saga"  # noqa: S608  names of a catalogue
        if attribute.name not in _DRIVING and not attribute.index:
            return None
        condition = self.condition(attribute, operator, values)
        if operator == "like":
            begins = re.split(r"[*?\[]", str(values[0]))[0]
            if not begins:
                return None
            least, most = self.put(begins), self.put(begins + LAST)
            condition += f" AND {attribute.sql} BETWEEN {least} AND {most}"
        return f"SELECT s.rowid FROM _sagas AS s WHERE {condition} LIMIT :most"  # noqa: S608  names of a catalogue

    def window(self, bounds: Sequence[Comparison]) -> str | None:
        """Return the rowids between several bounds of one attribute, if an index has them: few may be where each bound has many."""
        meanings = [self.meaning(each) for each in bounds]
        attribute = meanings[0][0]
        if attribute.of or not attribute.index:
            return None
        within = " AND ".join(self.condition(*each) for each in meanings)
        return f"SELECT s.rowid FROM _sagas AS s WHERE {within} LIMIT :most"  # noqa: S608  names of a catalogue

    def of_status(self, found: Comparison) -> str | None:
        if found.operator not in {"=", "in"} or any(each.value == "ended" for each in found.values):
            return None
        return _OPEN


_OPEN = "SELECT s.rowid FROM _sagas AS s WHERE s.open LIMIT :most"
_DRIVING = {"state", "outcome", "reason", "overdue_at"}
"""Attributes with an index that nothing is ordered by."""


def compiled(term: Term, catalogue: Catalogue, now_ms: int) -> Compiled:
    """Return a condition as SQL, typed against a catalogue. Raises: QueryError, with the place."""
    compiler = _Compiler(catalogue, now_ms, {"now": now_ms})
    sql = compiler.term(term)
    comparisons, bounds = [*_conjuncts(term)], dict[str, list[Comparison]]()
    for each in comparisons:
        if each.operator in _MIRRORED:
            bounds.setdefault(each.name, []).append(each)
    drivers = [compiler.window(each) for each in bounds.values() if len(each) > 1]
    drivers += [compiler.driver(each) for each in comparisons]
    return Compiled(sql, compiler.values, tuple(each for each in drivers if each is not None))


def _conjuncts(term: Term) -> Iterator[Comparison]:
    """Yield the comparisons that every row has to meet."""
    match term:
        case Comparison():
            yield term
        case Every():
            for each in term.terms:
                yield from _conjuncts(each)
        case _:
            return


_ALWAYS = {"saga", "status", "outcome", "started_at", "age"}
_KINDS = {
    "text": "a text, in single quotes",
    "integer": "a whole number",
    "decimal": "a number",
    "number": "a number",
    "boolean": "true or false",
    "time": "a time",
    "date": "a date",
    "duration": "a duration",
}
_EXAMPLES = {
    "integer": "17",
    "decimal": "17.5",
    "number": "17.5",
    "time": "'2026-01-31T12:00:00Z'",
    "date": "'2026-01-31'",
    "duration": "90s, 15m, 2h or 1.5d",
}


def _number(attribute: Attribute, value: Decimal, column: int) -> int | float:
    kind = attribute.kind
    if kind.type == "number":
        return float(value)
    scaled = value.scaleb(kind.places)
    if scaled != scaled.to_integral_value():
        places = f"{kind.places} digits after the point" if kind.places else "no digits after the point"
        raise QueryError(f"{attribute.name} has {places}, so it is never compared with {value}", column)
    if not -_LARGEST - 1 <= scaled <= _LARGEST:
        raise QueryError(f"{value} is more than {attribute.name} can be", column)
    return int(scaled)


def _glob(found: Value) -> str:
    r"""Return a pattern of SQL's LIKE as one of GLOB, which tells capital letters from small ones; `\` escapes `%`, `_` and itself."""
    if not isinstance(found.value, str):
        raise QueryError("`like` takes a text: '%KeyError%'", found.column)
    parts = re.findall(r"%+|\\[%_\\]|[^%]", found.value, re.DOTALL)
    if sum(each.startswith("%") for each in parts) > _MOST_WILDCARDS:
        raise QueryError(f"a pattern has {_MOST_WILDCARDS} % at most", found.column)
    return "".join(
        _GLOB_OF_TEXT.get(each[-1], each[-1]) if each[0] == "\\" else _GLOB.get(each[0], each[0]) for each in parts
    )
