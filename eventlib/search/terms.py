"""What a query says: a tree of conditions, each with its place in the text."""

from dataclasses import dataclass
from decimal import Decimal
from typing import Literal

from eventlib.errors import ContractError

Operator = Literal["=", "!=", "<", "<=", ">", ">=", "in", "like", "is null"]
KEYWORDS = frozenset({"and", "or", "not", "in", "like", "between", "is", "null", "true", "false", "asc", "desc"})


class QueryError(ContractError):
    """A query cannot be answered as it is written; `column` (from 1) of its `part`, where or order_by, is where it is wrong."""

    part = "where"

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
    """What does not hold."""

    term: "Term"


@dataclass(frozen=True, slots=True)
class Every:
    """All of these hold."""

    terms: tuple["Term", ...]


@dataclass(frozen=True, slots=True)
class Some:
    """One of these holds, or more."""

    terms: tuple["Term", ...]


Term = Comparison | Not | Every | Some


@dataclass(frozen=True, slots=True)
class Order:
    """What a result is ordered by."""

    name: str
    descending: bool = False
    column: int = 1
