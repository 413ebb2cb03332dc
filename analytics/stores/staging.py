"""Rows that are made in Spark's workers, and written there: they do not go back to the JVM to be written."""

from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from secrets import token_hex

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from analytics.projection import write_rows
from analytics.stores.version import NO_DICTIONARY, Made


def stage_here(rows: DataFrame, made: Made, schema: StructType, where: Path) -> DataFrame:
    """Write what is made of rows as Parquet in a directory that every worker sees; return it, read from there.

    Guarantee: of a task that was repeated, the rows are there once.
    """
    where.mkdir(parents=True)
    written = rows.mapInArrow(partial(_write, made=made, schema=to_arrow_schema(schema), where=where), "file string")
    for (file,) in written.collect():  # that of a failed task is not among them; its name is one that Spark passes over
        (where / file).rename(where / f"{file[1:]}.parquet")
    if not any(where.glob("*.parquet")):
        write_rows(iter(()), to_arrow_schema(schema), where / "0.parquet")
    return rows.sparkSession.read.schema(schema).parquet(str(where))


def _write(batches: Iterable[pa.RecordBatch], made: Made, schema: pa.Schema, where: Path) -> Iterator[pa.RecordBatch]:
    """Write a task's rows to a file, and yield its name."""
    file = f"_{token_hex(8)}"
    tables = (pa.Table.from_batches([batch]).select(schema.names).cast(schema) for batch in made(batches))
    dictionary = [name for name in schema.names if name not in NO_DICTIONARY]
    write_rows(tables, schema, where / file, dictionary=dictionary)
    yield pa.RecordBatch.from_pydict({"file": [file]})
