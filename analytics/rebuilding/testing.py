"""Tests of rebuilt tables: what their columns and keys declare, over all rows."""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from analytics.rebuilding.catalogue import Catalogue
from analytics.table_tests import ColumnTest
from eventlib.errors import WiringError


class Tested(NamedTuple):
    """A test of a column: how many rows break it, and a value of one of these."""

    table: str
    column: str
    test: str
    rows: int
    example: str


def tested_tables(catalogue: Catalogue, tables: Mapping[str, DataFrame]) -> list[Tested]:
    """ColumnTest those tables of a catalogue that are there. Raises: WiringError when a relationship leads nowhere."""
    return [
        tested
        for table in catalogue.tables
        if table.name in tables
        for tested in _tested(table.name, table.tests(), tables)
    ]


def _tested(name: str, tests: list[tuple[str, ColumnTest]], tables: Mapping[str, DataFrame]) -> Iterator[Tested]:
    """ColumnTest one table: what a row can tell by itself in one scan, all else for itself."""
    rows = tables[name]
    alone = [(column, test, broken) for column, test in tests if (broken := test.broken_by(column)) is not None]
    if alone:
        counts = [f.count_if(broken) for _, _, broken in alone]
        values = [
            f.first(f.when(broken, f.col(f"`{column}`").cast("string")), ignorenulls=True)
            for column, _, broken in alone
        ]
        told = rows.agg(*(each.alias(str(number)) for number, each in enumerate((*counts, *values)))).collect()[0]
        for number, (column, test, _) in enumerate(alone):
            yield Tested(name, column, test.name, told[number], str(told[number + len(alone)] or ""))
    for column, test in tests:
        if test.kind == "unique":
            yield _counted(name, column, test, _twice(rows, column))
        elif test.kind == "relationships":
            yield _counted(name, column, test, _lost(rows, column, test, tables, f"{name}.{column}"))


def _twice(rows: DataFrame, columns: str) -> DataFrame:
    """Return the values that more than one row has."""
    names = columns.split(", ")
    keyed = rows.dropna(subset=names).groupBy(*names).count().filter(f.col("count") > 1)
    return keyed.select(f.concat_ws(", ", *(f.col(each).cast("string") for each in names)).alias("value"))


def _lost(rows: DataFrame, column: str, test: ColumnTest, tables: Mapping[str, DataFrame], where: str) -> DataFrame:
    """Return the values that the other table does not have."""
    table, _, other = test.text.rpartition(".")
    if table not in tables or other not in tables[table].columns:
        raise WiringError(f"{where}: {test.name} names no column of these tables; write relationships('table.column')")
    known = tables[table].select(f.col(f"`{other}`").alias("value")).distinct()
    return rows.select(f.col(f"`{column}`").cast("string").alias("value")).dropna().join(known, "value", "left_anti")


def _counted(name: str, column: str, test: ColumnTest, broken: DataFrame) -> Tested:
    count, example = broken.agg(f.count("*"), f.first("value")).collect()[0]
    return Tested(name, column, test.name, count, str(example or ""))
