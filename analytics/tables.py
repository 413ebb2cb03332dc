"""What an application's own tables are declared with: `@table` functions, SQL files, columns, and what has to hold.

`Choreography(analytics="shop.analytics")` names the package that has them. A function's parameters are the tables that it
reads, by name, or entries of `events`:

    @table(key="country", columns={"country": Column("Where to.", not_null, unique)})
    def sales(orders: DataFrame) -> DataFrame:
        '''Return orders and money by country.'''
        return orders.groupBy("country").agg(f.count("*").alias("orders"))
"""

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Literal

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from analytics.columns import literal
from analytics.projection import Projection
from analytics.table_tests import ColumnTest, accepted_values, holds, not_null, relationships, unique
from eventlib.errors import WiringError
from eventlib.model.event import Event, contract_of

__all__ = [
    "Column",
    "Events",
    "StepFields",
    "Table",
    "accepted_values",
    "holds",
    "is_one",
    "not_null",
    "relationships",
    "table",
    "unique",
]

Increment = Literal["append", "merge", "whole"]
MERGES = ("bit_or", "bool_and", "bool_or", "max", "min", "sum")
"""Spark's aggregates with which values of two increments give that of both, in any order."""


@dataclass(frozen=True)
class Column:
    """A column's meaning, and what has to hold in it."""

    doc: str
    tests: tuple[ColumnTest, ...]

    def __init__(self, doc: str, *tests: ColumnTest) -> None:
        object.__setattr__(self, "doc", doc)
        object.__setattr__(self, "tests", tests)


@dataclass(frozen=True)
class Events:
    """Records of several events in one DataFrame: place, ids, `type`, and these fields, NULL where an event lacks one.

    A field whose name is one of those columns is the column `event_<name>`.
    """

    types: tuple[type[Event], ...]
    fields: tuple[str, ...]


@dataclass(frozen=True)
class StepFields:
    """The fields of events that an application wants in `saga_steps`; a request has none: what follows repeats them."""

    names: tuple[str, ...]

    def __init__(self, *names: str) -> None:
        object.__setattr__(self, "names", names)


@dataclass(frozen=True)
class Table:
    """A table: the function that makes it, what it reads, and how it grows.

    `reads` are the function's parameters, each the name of a table or a selection of events. `hidden` tables are kept for
    others, and are not for readers. `place` is where it is declared, for messages; `source` is its text, if it is SQL. With a
    `projection` its rows are columns of those that it reads, and need no query.
    """

    name: str
    make: Callable[..., DataFrame]
    reads: Mapping[str, str | Events]
    key: tuple[str, ...] = ()
    increment: Increment = "whole"
    merges: Mapping[str, str] = field(default_factory=dict)
    columns: Mapping[str, Column] = field(default_factory=dict)
    doc: str = ""
    hidden: bool = False
    place: str = ""
    source: str = ""
    projection: Projection | None = None

    def __post_init__(self) -> None:
        """Refuse contradictions. Raises: WiringError."""
        if self.increment == "merge" and not (self.key and self.merges):
            raise WiringError(
                f"{self._where}: a table that is merged needs key=… and merges={{column: one of {', '.join(MERGES)}}}"
            )
        wrong = sorted(set(self.merges.values()) - {*MERGES})
        if wrong:
            raise WiringError(f"{self._where}: merges with {wrong[0]!r}; known are {', '.join(MERGES)}")

    def __call__(self, *inputs: DataFrame) -> DataFrame:
        """Return the rows that its function makes of tables, in the order of its parameters."""
        return self.make(*inputs)

    def merged(self, rows: DataFrame) -> DataFrame:
        """Return rows merged by key."""
        return rows.groupBy(*self.key).agg(*(getattr(f, how)(name).alias(name) for name, how in self.merges.items()))

    @property
    def _where(self) -> str:
        return f"table {self.name} ({self.place})" if self.place else f"table {self.name}"

    @property
    def needs(self) -> list[str]:
        """The tables that it reads."""
        return [each for each in self.reads.values() if isinstance(each, str)]

    @property
    def selections(self) -> list[Events]:
        """The events that it reads."""
        return [each for each in self.reads.values() if isinstance(each, Events)]

    def tests(self) -> list[tuple[str, ColumnTest]]:
        """Return what has to hold, with the column that it is about; a key is unique and not NULL."""
        declared = [(name, test) for name, column in self.columns.items() for test in column.tests]
        keyed = [(", ".join(self.key), unique), *((name, not_null) for name in self.key)] if self.key else []
        return list(dict.fromkeys([*keyed, *declared]))


_NO_EVENTS: Mapping[str, Events] = MappingProxyType({})
_NO_MERGES: Mapping[str, str] = MappingProxyType({})
_NO_COLUMNS: Mapping[str, Column] = MappingProxyType({})


def table(
    *,
    key: str | Sequence[str] = (),
    increment: Increment = "whole",
    merges: Mapping[str, str] = _NO_MERGES,
    events: Mapping[str, Events] = _NO_EVENTS,
    columns: Mapping[str, Column] = _NO_COLUMNS,
    hidden: bool = False,
) -> Callable[[Callable[..., DataFrame]], Table]:
    """Make a table of a function, named as it is; its parameters are tables by name, or `events`.

    `increment` is how the table follows the log: `append` gets only new rows, and its own are added; `merge` gets only new
    rows, and its own are merged by `key` with those before, each column by its function in `merges`; `whole` gets whole
    tables, and is made anew. Guarantee: a table that appends or merges gives what it would give of the whole log at once.
    Raises: WiringError when the declaration contradicts itself.
    """

    def declare(make: Callable[..., DataFrame]) -> Table:
        parameters = list(inspect.signature(make).parameters)
        unknown = sorted(set(events) - {*parameters})
        if unknown:
            raise WiringError(f"table {make.__name__}: events={unknown[0]!r} is none of its parameters {parameters}")
        return Table(
            name=make.__name__,
            make=make,
            reads={name: events.get(name, name) for name in parameters},
            key=(key,) if isinstance(key, str) else tuple(key),
            increment=increment,
            merges=merges,
            columns=columns,
            doc=inspect.cleandoc(make.__doc__ or ""),
            hidden=hidden,
            place=f"{make.__module__}:{make.__code__.co_firstlineno}",
        )

    return declare


def is_one(*events: type[Event]) -> Expression:
    """Return whether a row of `Events` or of `saga_steps` is one of these events."""
    types = ", ".join(literal(contract_of(event).type) for event in events)
    return f.expr(f"type IN ({types})")  # as text, it is one call of the JVM, not one for each
