"""`python -m analytics test`: what columns and keys of rebuilt tables declare, over all rows."""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from analytics.audit.application import Application
from analytics.commands.starting import session_for
from analytics.rebuilding.catalogue import Catalogue, catalogue_of
from analytics.stores import Place, tables
from analytics.table_tests import ColumnTest
from eventlib import command_line
from eventlib.errors import WiringError


def test_command(out: Place, application: Application, *, as_json: bool) -> bool:
    """Test the tables in a directory, print what does not hold, and return whether there is any."""
    catalogue = catalogue_of(application)
    found = tables(session_for("test", None, out), out)
    results = _tested_tables(catalogue, found)
    broken = [each for each in results if each.rows]
    if as_json:
        command_line.print_json([each._asdict() for each in results])
        return bool(broken)
    if broken:
        shown = command_line.table(
            "table", "column", "test", "rows", "such as", right=["rows"], whole=["table", "column"]
        )
        for each in broken:
            shown.add_row(each.table, each.column, each.test, f"{each.rows:,}", command_line.printable(each.example))
        command_line.terminal().print(shown)
    tested = len({each.table for each in results})
    told = f"{len(broken)} do not hold" if broken else "all hold"
    print(f"{command_line.counted(len(results), 'test')} of {command_line.counted(tested, 'table')}: {told}.")
    return bool(broken)


class Tested(NamedTuple):
    """A test of a column: how many rows break it, and a value of one of these."""

    table: str
    column: str
    test: str
    rows: int
    example: str


def _tested_tables(catalogue: Catalogue, tables: Mapping[str, DataFrame]) -> list[Tested]:
    """Test those tables of a catalogue that are there. Raises: WiringError when a relationship leads nowhere."""
    return [
        tested
        for table in catalogue.tables
        if table.name in tables
        for tested in _tested(table.name, table.tests(), tables)
    ]


def _tested(name: str, tests: list[tuple[str, ColumnTest]], tables: Mapping[str, DataFrame]) -> Iterator[Tested]:
    """Test one table: what a row can tell by itself in one scan, all else for itself."""
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
