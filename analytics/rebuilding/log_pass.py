"""What a rebuild takes from a log's files in one pass of Spark's workers, and of which events that is possible."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import types as t
from pyspark.sql.pandas.types import to_arrow_schema

from analytics.avro_columns import Columns
from analytics.columns import struct_of
from analytics.projection import write_rows
from analytics.rebuilding.facts import Facts
from analytics.rebuilding.layout import RESERVED, Fields, Layout, column_of, layouts_of
from analytics.rebuilding.scanning import FEW_RECORDS, Extract, Taken, Task
from analytics.rebuilding.steps import CAUSES, Steps
from analytics.schema import SCHEMA
from analytics.schemas import resolves_equally, writers_of
from analytics.selection import Only, Selection
from analytics.sources import sources_of
from analytics.tasks import finished, run_tasks
from eventlib.index.tables import is_keyed
from eventlib.model.event import Event, contract_of
from eventlib.model.schema.derive import record_of
from eventlib.model.schema.types import schema_json

_IDS = t.StructType([SCHEMA[name] for name in CAUSES])
_TEXT = (t.StringType(), t.LongType())  # which Arrow makes the same text of as Spark


class LogPass:
    """One pass over what `log` selects of a log in files.

    It takes those of some events that can be decoded by columns: facts of those in `staged`, with these fields, and steps of
    those in `stepped`. All is written below `where`, which every worker sees.
    """

    def __init__(
        self,
        log: Facts,
        steps: Steps,
        events: Sequence[type[Event]],
        staged: Fields,
        stepped: Fields,
        where: Path,
    ) -> None:
        self._log, self._steps, self._where = log, steps, where
        self._staged, self._stepped = staged, stepped
        found = {event: self._extract(event) for event in events}
        self._extracts = {event: extract for event, extract in found.items() if extract is not None}
        self.events = tuple(self._extracts)
        self.layouts = layouts_of({event: names for event, names in staged.items() if event in self._extracts})

    def run(self, count: int, others: str) -> Taken:
        """Take all, by about so many tasks; ids of events that are no steps go to `others`, if it is set.

        Raises: LogCorrupt, LogUnavailable.
        """
        extracts = {contract_of(event).type: each for event, each in self._extracts.items()}
        task = Task(
            sources=(),
            extracts={contract_of(e).type: replace(each, files=self._files(e)) for e, each in self._extracts.items()},
            where=self._where,
            steps=to_arrow_schema(self._steps.before),
            key=self._steps.key,
            shards=count,
            others=others,
            ids=to_arrow_schema(_IDS),
        )
        topics = sorted({contract_of(event).topic.name for event in self.events})
        only: Only = {**self._log.only, "topics": topics, "types": sorted(extracts)}
        shares, rows = sources_of(self._log.url, Selection.of(**only), count) if extracts else ([], 0)
        here = rows is not None and rows <= FEW_RECORDS
        taken = Taken()
        for each in run_tasks(self._log.spark, [replace(task, sources=share) for share in shares], here=here):
            taken.add(each)
        for path in taken.files:
            finished(path)
        if others and not (self._where / others).exists():
            (self._where / others).mkdir()
            write_rows([], task.ids, self._where / others / "0.parquet")
        return taken

    def facts(self, number: int) -> DataFrame:
        """Return the facts of a layout, by its number, that were written."""
        path = self._where / facts_directory(number)
        path.mkdir(exist_ok=True)
        schema = _schema_of(self.layouts[number])
        return self._log.spark.read.schema(schema).parquet(str(path)).select(*schema.names)

    def ids(self, table: str) -> DataFrame:
        """Return the ids that were written for a table."""
        return self._log.spark.read.schema(_IDS).parquet(str(self._where / table))

    def _files(self, event: type[Event]) -> dict[str, pa.Schema]:
        """Return where facts of an event are written, and their columns: the type is in the directory's name."""
        for number, layout in enumerate(self.layouts):
            if event in layout.events:
                mine = {*RESERVED, *map(column_of, self._staged[event])} - {"type"}
                schema = t.StructType([each for each in _schema_of(layout).fields if each.name in mine])
                return {
                    f"{facts_directory(number)}/type={quote(contract_of(event).type, safe='')}": to_arrow_schema(schema)
                }
        return {}

    def _extract(self, event: type[Event]) -> Extract | None:
        """Return what is taken of an event; None where that is not possible by columns."""
        if contract_of(event).external is not None:
            return None
        kinds = {each.name: each.dataType for each in struct_of(record_of(event)).fields}
        names = dict.fromkeys([*self._staged.get(event, ()), *self._stepped.get(event, ())])
        fields = {
            each.name: each.type for each in to_arrow_schema(t.StructType([t.StructField(n, kinds[n]) for n in names]))
        }
        writers = self._writers(event, fields) if fields else {}
        step = self._step(event, kinds) if event in self._stepped else {}
        return None if writers is None or step is None else Extract(writers, fields, step)

    def _writers(self, event: type[Event], fields: Mapping[str, pa.DataType]) -> Mapping[int, Any] | None:
        record = record_of(event)
        defaults = {each["name"]: each.get("default") for each in schema_json(record)["fields"]}
        found = {number: json.loads(text) for number, text in writers_of(record, self._log.texts).items()}
        for schema in found.values():
            lacking = fields.keys() - {each["name"] for each in schema["fields"]}
            if not resolves_equally(record, schema) or any(defaults[name] is not None for name in lacking):
                return None
            try:
                Columns(schema, fields)
            except ValueError:
                return None
        return found

    def _step(self, event: type[Event], kinds: Mapping[str, t.DataType]) -> Mapping[str, str] | None:
        """Return the facts' column for each of a step's."""
        contract, story, schema = contract_of(event), self._steps.application.story_field, self._steps.schema
        saga = "correlation_id" if not story else "key" if is_keyed(event, story) else column_of(story)
        wanted = [] if contract.request else [name for name in self._steps.wanted if name in kinds]
        if any(schema[column_of(name)].dataType != kinds[name] for name in wanted):
            return None
        if saga not in {"correlation_id", "key"} and kinds[story] not in _TEXT:
            return None
        own = [each.name for each in self._steps.before.fields if each.name in RESERVED]
        return {name: name for name in (*own, *map(column_of, wanted))} | {self._steps.key: saga}


def facts_directory(number: int) -> str:
    """Return the name of the facts of a layout, by its number."""
    return f"facts-{number}"


def _schema_of(layout: Layout) -> t.StructType:
    """Return the columns of facts."""
    kinds = [SCHEMA[name] if name in SCHEMA.names else t.StructField(name, t.BooleanType()) for name in RESERVED]
    return t.StructType([*kinds, *(t.StructField(column_of(name), kind) for name, kind in layout.types.items())])
