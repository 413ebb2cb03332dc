"""Tables that are columns of staged rows: written by Arrow from file to file, since a job of Spark's costs 0.2 s of CPU.

A rebuild has dozens of them, one for each event and several for each decider.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from operator import and_
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql import types as t
from pyspark.sql.pandas.types import to_arrow_schema

from analytics.tasks import run_tasks

ROWS_AT_ONCE = 131_072
"""How many rows a group of a file has, and how many are in memory."""

FEW_BYTES = 64_000_000
"""Files of so many bytes are read here; more are shared out to Spark's workers."""


@dataclass(frozen=True)
class Projection:
    """The columns of a table, each with its source in staged rows, and what holds in the rows that it is made of.

    A source is a column, or `column.field` of a struct. Where `schema` has a time, and the source a number, that is in ms.
    """

    schema: t.StructType
    sources: Mapping[str, str]
    where: Mapping[str, str | bool]
    present: str = ""  # a struct that is not NULL

    def __call__(self, staged: DataFrame) -> DataFrame:
        """Return the table's rows."""
        wanted = [f.col(name) == f.lit(value) for name, value in self.where.items()]
        wanted += [f.col(self.present).isNotNull()] if self.present else []
        rows = staged.filter(reduce(and_, wanted)) if wanted else staged
        return rows.select(*(self._column(rows, each).alias(each.name) for each in self.schema.fields))

    def _column(self, rows: DataFrame, wanted: t.StructField) -> Column:
        column, _, inner = self.sources[wanted.name].partition(".")
        kind = rows.schema[column].dataType
        if inner and isinstance(kind, t.StructType):
            kind = kind[inner].dataType
        found = f.col(f"`{column}`")[inner] if inner else f.col(f"`{column}`")
        is_in_ms = wanted.dataType == t.TimestampType() and kind == t.LongType()
        return f.timestamp_millis(found) if is_in_ms else found

    def write(self, spark: SparkSession, files: Sequence[Path], target: Path) -> None:
        """Write the table's rows of staged files, in a directory; an empty file if there are none."""
        target.mkdir(parents=True)
        if not files:
            write_rows(iter(()), to_arrow_schema(self.schema), target / "0.parquet")
        writing = [partial(self._write, file, target / f"{i:05}.parquet") for i, file in enumerate(files)]
        run_tasks(spark, writing, here=sum(file.stat().st_size for file in files) < FEW_BYTES)

    def _write(self, file: Path, target: Path) -> None:
        write_rows(self._rows(file), to_arrow_schema(self.schema), target)

    def _rows(self, file: Path) -> Iterator[pa.Table]:
        kinds = to_arrow_schema(self.schema)
        with pq.ParquetFile(file) as opened:
            # What the files of a directory have in common is not in them: Spark stages them by it.
            where = {name: value for name, value in self.where.items() if name in opened.schema_arrow.names}
            read = {*where, *(source.partition(".")[0] for source in self.sources.values())}
            for batch in opened.iter_batches(ROWS_AT_ONCE, columns=sorted(read)):
                wanted = [pc.equal(batch[name], value) for name, value in where.items()]
                wanted += [pc.is_valid(batch[self.present])] if self.present else []
                found = batch.filter(reduce(pc.and_, wanted)) if wanted else batch
                columns = [_as(self._values(found, each.name), each.type) for each in kinds]
                yield pa.Table.from_arrays(columns, schema=kinds)

    def _values(self, rows: pa.RecordBatch, name: str) -> pa.Array:
        column, _, inner = self.sources[name].partition(".")
        return pc.struct_field(rows[column], inner) if inner else rows[column]


def _as(values: pa.Array, kind: pa.DataType) -> pa.Array:
    if pa.types.is_timestamp(kind) and pa.types.is_integer(values.type):
        values = values.cast(pa.timestamp("ms", kind.tz))
    return values if values.type == kind else values.cast(kind)


class RowsWriter:
    """Writes rows to a file, in groups of `ROWS_AT_ONCE`; `dictionary` are the columns that have one, or whether all do."""

    def __init__(self, target: Path, schema: pa.Schema, *, dictionary: bool | Sequence[str] = True) -> None:
        self._file = pq.ParquetWriter(target, schema, compression="snappy", use_dictionary=dictionary)
        self._waiting, self._rows = list[pa.Table](), 0

    def add(self, rows: pa.Table) -> None:
        """Add rows."""
        self._waiting.append(rows)
        self._rows += rows.num_rows
        if self._rows >= ROWS_AT_ONCE:
            self._write()

    def close(self) -> None:
        """Finish the file."""
        if self._rows:
            self._write()
        self._file.close()

    def _write(self) -> None:
        self._file.write_table(pa.concat_tables(self._waiting))
        self._waiting, self._rows = [], 0


def write_rows(
    tables: Iterable[pa.Table], schema: pa.Schema, target: Path, *, dictionary: bool | Sequence[str] = True
) -> None:
    """Write rows to a file, as `RowsWriter` does."""
    writer = RowsWriter(target, schema, dictionary=dictionary)
    for table in tables:
        writer.add(table)
    writer.close()
