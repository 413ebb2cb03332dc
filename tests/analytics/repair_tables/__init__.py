"""Tables of their own: one appends, one merges, one is whole, and one is an SQL file."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from analytics.tables import Column, Events, StepFields, accepted_values, not_null, relationships, table
from tests.analytics.repairs import PartSent, RepairDone

FIELDS = StepFields("minutes", "reason")


@table(key="repair_id", increment="append", columns={"kind": Column("What it is.", accepted_values("clock", "radio"))})
def intake(event_repair_asked: DataFrame) -> DataFrame:
    """Return what was brought."""
    return event_repair_asked.select("repair_id", "kind", "minutes")


@table(
    key="repair_id",
    increment="merge",
    merges={"cents": "sum", "minutes": "max"},
    events={"money": Events((PartSent, RepairDone), ("repair_id", "cents", "minutes"))},
    columns={"repair_id": Column("The repair.", relationships("intake.repair_id"))},
)
def bills(money: DataFrame) -> DataFrame:
    """Return what each repair costs."""
    return money.select("repair_id", f.coalesce("cents", f.lit(0)).cast("bigint").alias("cents"), "minutes")


@table(columns={"outcome": Column("How they ended.", not_null)})
def endings(sagas: DataFrame, kinds: DataFrame) -> DataFrame:
    """Return how many repairs ended how; read beside the SQL file's table."""
    return (
        sagas.join(kinds.select("repair_id", "kind"), sagas.saga == kinds.repair_id).groupBy("kind", "outcome").count()
    )
