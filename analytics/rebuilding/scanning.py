"""One pass over a log by Spark's workers, with Arrow alone: events are decoded by columns, and written where they are read.

A row that goes through Spark is made, serialised for Python, and shuffled; that costs several times what its columns do.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from analytics.avro_columns import Columns, parts_of
from analytics.projection import RowsWriter
from analytics.rebuilding.layout import column_of
from analytics.shards import ShardWriter
from analytics.sources import Source
from analytics.stores.version import NO_DICTIONARY
from analytics.tasks import unfinished
from eventlib.codec.wire_format import HEADER_BYTES, MAGIC

_COPIED = (
    "topic",
    "partition",
    "offset",
    "recorded_at",
    "key",
    "id",
    "type",
    "source",
    "correlation_id",
    "causation_id",
)
SHARDS = "step_shards"
FEW_RECORDS = 50_000
"""So many records are read and written by the driver: a job of Spark's takes longer."""

Facts = Mapping[str, pa.Array]


@dataclass(frozen=True)
class Extract:
    """What is taken of one event's records.

    `writers` are the schemas that have written it, by number, and `fields` the types of what is decoded, by field. `step` has
    the sources of a step's columns, if it is one. `files` are the directories to write facts to, each with their columns.
    """

    writers: Mapping[int, Any]
    fields: Mapping[str, pa.DataType]
    step: Mapping[str, str]
    files: Mapping[str, pa.Schema] = field(default_factory=dict)


@dataclass
class Taken:
    """What was taken: records by type, how many of them are damaged, and how many are steps; and the files written."""

    records: Counter[str] = field(default_factory=Counter)
    damaged: Counter[str] = field(default_factory=Counter)
    steps: Counter[str] = field(default_factory=Counter)
    files: list[Path] = field(default_factory=list)
    steps_at: list[Path] = field(default_factory=list)

    def add(self, other: "Taken") -> None:
        """Add what another task has taken."""
        self.records += other.records
        self.damaged += other.damaged
        self.steps += other.steps
        self.files += other.files
        self.steps_at += other.steps_at


@dataclass(frozen=True)
class Task:
    """A part of the pass: what it reads, and what it takes of each event, by type; ids of no steps go to `others`, if set.

    Files get names that Spark passes over, since a task that failed may have left some: whoever has the result renames them.
    """

    sources: Sequence[Source]
    extracts: Mapping[str, Extract]
    where: Path
    steps: pa.Schema
    key: str
    shards: int
    others: str
    ids: pa.Schema

    def __call__(self) -> Taken:
        """Do it. Raises: LogCorrupt."""
        taken, path = Taken(), self.where / SHARDS / unfinished()
        path.parent.mkdir(exist_ok=True)
        with ShardWriter(path, self.steps, self.key, self.shards) as steps:
            for source in self.sources:
                with _Staging(self.where, taken) as staging:
                    for kind, facts in self._read(source, taken):
                        self._take(kind, facts, taken, staging, steps)
        taken.steps_at.append(path)
        return taken

    def _take(self, kind: str, facts: Facts, taken: Taken, staging: "_Staging", steps: ShardWriter) -> None:
        extract, records = self.extracts[kind], len(facts["id"])
        taken.records[kind] += records
        taken.damaged[kind] += records - (facts["decoded"].true_count if records else 0)
        others = facts if not extract.step else None
        if extract.step:
            columns = [self._column(facts, extract.step.get(each.name), each.type, records) for each in self.steps]
            found = pa.table(columns, schema=self.steps)
            if found[self.key].null_count:  # its saga is not known
                is_step = found[self.key].is_valid()
                others, found = found.filter(pc.invert(is_step)), found.filter(is_step)
            taken.steps[kind] += found.num_rows
            steps.add(found)
        if others is not None and self.others:
            staging.add(self.others, pa.table([others[name] for name in self.ids.names], schema=self.ids))
        for directory, schema in extract.files.items():
            staging.add(directory, pa.table([facts[name] for name in schema.names], schema=schema))

    def _column(self, facts: Facts, source: str | None, kind: pa.DataType, count: int) -> pa.Array:
        if source is None:
            return pa.nulls(count, kind)
        return facts[source] if facts[source].type == kind else facts[source].cast(kind)

    def _read(self, source: Source, taken: Taken) -> Iterator[tuple[str, Facts]]:
        decoders = {kind: _Decoder(extract) for kind, extract in self.extracts.items()}
        for batch in source():
            types = batch["type"].dictionary_encode()
            is_one = len(types.dictionary) == 1 and not types.null_count
            for number, kind in enumerate(types.dictionary.to_pylist()):
                rows = batch if is_one else batch.filter(pc.equal(types.indices, number))
                if kind in decoders:
                    yield kind, decoders[kind].facts(rows)
                else:  # a damaged record's
                    taken.damaged[kind] += rows.num_rows


class _Staging:
    """Writes facts, each directory's to a file."""

    def __init__(self, where: Path, taken: Taken) -> None:
        self._where, self._taken = where, taken
        self._open = dict[str, RowsWriter]()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for writer in self._open.values():
            writer.close()

    def add(self, directory: str, rows: pa.Table) -> None:
        if directory not in self._open:
            path = self._where / directory / unfinished()
            path.parent.mkdir(parents=True, exist_ok=True)
            dictionary = [name for name in rows.schema.names if name not in NO_DICTIONARY]
            self._open[directory] = RowsWriter(path, rows.schema, dictionary=dictionary)
            self._taken.files.append(path)
        self._open[directory].add(rows)


class _Decoder:
    """Makes facts of one event's records."""

    def __init__(self, extract: Extract) -> None:
        self._fields = extract.fields
        self._columns = {number: Columns(schema, extract.fields) for number, schema in extract.writers.items()}

    def facts(self, rows: pa.RecordBatch) -> Facts:
        """Return the columns of records: of their place and ids, and of what is decoded."""
        found = {name: rows[name] for name in _COPIED}
        numbers = _schema_ids(rows["value"])
        found["schema_id"] = pa.array(numbers.astype(np.int32), mask=numbers < 0)
        whole = np.ones(rows.num_rows, np.bool_)
        if self._fields:
            whole, fields = self._decoded(rows["value"], numbers)
            found |= {column_of(name): column for name, column in fields.items()}
        found["decoded"] = pa.array(whole)
        return found

    def _decoded(self, values: pa.Array, numbers: np.ndarray) -> tuple[np.ndarray, Facts]:
        parts = list[tuple[np.ndarray, np.ndarray, Facts]]()
        for number in np.unique(numbers).tolist():
            rows = np.flatnonzero(numbers == number)
            mine = values if len(rows) == len(values) else values.take(pa.array(rows))
            if number in self._columns:
                parts.append((rows, *self._columns[number].read(mine, HEADER_BYTES)))
            else:
                nothing = {name: pa.nulls(len(rows), kind) for name, kind in self._fields.items()}
                parts.append((rows, np.zeros(len(rows), np.bool_), nothing))
        if len(parts) == 1:
            return parts[0][1:]
        order = np.argsort(np.concatenate([rows for rows, _, _ in parts]))
        columns = {
            name: pa.concat_arrays([fields[name] for _, _, fields in parts]).take(pa.array(order))
            for name in self._fields
        }
        return np.concatenate([whole for _, whole, _ in parts])[order], columns


def _schema_ids(values: pa.Array) -> np.ndarray:
    """Return the schema id in front of each value; -1 where there is none."""
    offsets, data = parts_of(values)
    first = [data.take(offsets[:-1] + i, mode="clip").astype(np.int64) for i in range(HEADER_BYTES)]
    number = first[1] << 24 | first[2] << 16 | first[3] << 8 | first[4]
    return np.where((first[0] == MAGIC) & (np.diff(offsets) >= HEADER_BYTES), number, -1)
