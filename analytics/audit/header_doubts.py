"""Which ids the rules about causes have to look at: those about which a few numbers tell that something may be wrong.

Nearly no id of a correct log is among them. What is shuffled for that are numbers, one row for an event as a cause and one
as an effect, instead of all that a finding tells of it. Ids go by 64 bits of a hash: two that share it are both looked at.
"""

from collections.abc import Sequence
from functools import reduce
from operator import or_

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

from analytics.audit.graph import Graph
from analytics.audit.routing import constant_of

_MOST = 1_000
"""How many ids a query can name."""

_BITS = 63  # of a number in Spark, without its sign
_ANY = -1  # all bits


def doubtful_ids(events: DataFrame, graph: Graph, is_answer: Column) -> Sequence[int] | None:
    """Return the hashes of the ids whose events may break a rule about ids or causes; None when there are too many."""
    both = events.select(f.inline(f.filter(_rows(graph, is_answer), lambda row: row["id"].isNotNull())))
    cause, effect = f.col("is_cause"), ~f.col("is_cause")
    doubts: list[Column] = [
        f.count_if(cause) > 1,
        (f.count_if(cause) == 0) & (f.count_if("is_emitted") > 0),
        f.count_if("is_answer") > 1,
        f.max(f.when(cause, f.col("at"))) > f.min(f.when(effect, f.col("at"))),
        f.bit_or(f.when(cause, f.col("kinds"))).bitwiseAND(f.bit_and(f.when(effect, f.col("kinds")))) == 0,
        f.min("saga") != f.max("saga"),
    ]
    is_doubtful = reduce(or_, (f.coalesce(doubt, f.lit(False)) for doubt in doubts))
    by_id = both.groupBy("id").agg(is_doubtful.alias("is_doubtful"))
    few = by_id.filter("is_doubtful").limit(_MOST + 1).agg(f.collect_list("id"))
    found: list[int] = few.collect()[0][0]
    return found if len(found) <= _MOST else None


def _rows(graph: Graph, is_answer: Column) -> Column:
    """Return an event's two rows: under its own id, and under that of its cause.

    `kinds` has a bit for each type: an event's own, and those that its cause may have. A type too many has none, so that it
    is always in doubt.
    """
    bits = {kind: 1 << n for n, kind in enumerate(sorted(graph.topics)[:_BITS])}
    is_emitted, saga = graph.is_emitted(), f.xxhash64("correlation_id")
    own = f.coalesce(constant_of("type", bits), f.lit(0))
    of_causes = f.when(is_emitted, _possible(graph, bits)).otherwise(
        f.when(f.col("type").isin(*graph.entries), f.lit(_ANY)).otherwise(f.lit(0))
    )
    as_cause = f.when(~f.col("type").isin(*graph.requests), saga)
    return f.array(
        _row("id", f.lit(True), f.lit(False), f.lit(False), as_cause, own),
        _row("causation_id", f.lit(False), is_emitted, is_answer, f.when(is_emitted, saga), of_causes),
    )


def _row(name: str, is_cause: Column, is_emitted: Column, is_answer: Column, saga: Column, kinds: Column) -> Column:
    hashed = f.when(f.col(name).isNotNull(), f.xxhash64(name))
    return f.struct(
        hashed.alias("id"),
        is_cause.alias("is_cause"),
        is_emitted.alias("is_emitted"),
        is_answer.alias("is_answer"),
        saga.alias("saga"),
        f.unix_micros("recorded_at").alias("at"),
        kinds.cast("long").alias("kinds"),
    )


def _possible(graph: Graph, bits: dict[str, int]) -> Column:
    """Return the bits of the types that may have led its source to emit an event of its type."""
    known = dict[tuple[str, str], int]()
    for source, cause, kind in graph.steps:
        known[source, kind] = known.get((source, kind), 0) | bits.get(cause, 0)
    known.update(dict.fromkeys(graph.late, _ANY))
    by_step = {f"{source}\x1f{kind}": bits for (source, kind), bits in known.items()}
    step = f.concat_ws("\x1f", "source", "type")
    pairs = [f.lit(each) for pair in by_step.items() for each in pair]
    return f.coalesce(f.create_map(*pairs)[step].cast("long"), f.lit(0)) if pairs else f.lit(0)
