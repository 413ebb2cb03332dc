"""What the rules on headers look at: each event beside those of its id, its cause, and the one before it."""

from collections.abc import Iterator, Mapping, Sequence
from functools import reduce

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as f

from analytics.audit.application import Application
from analytics.audit.graph import Graph
from analytics.audit.header_doubts import SEPARATOR, Doubts
from analytics.audit.routing import partition_of
from eventlib.model.event import contract_of

BY_ID, IN_TURN, CAUSED, EACH = "by id", "in turn", "caused", "each"
"""Kinds of rules: about events of one id, those of an emitter in turn, those with their causes, each one alone."""

_ABOUT = ("topic", "key", "id", "type", "source", "subject")
"""What a finding tells of an event."""

View = tuple[DataFrame, Mapping[str, Column]]
"""Rows, and which of them each kind of rules looks at."""


def header_views(events: DataFrame, application: Application, graph: Graph, doubts: Doubts) -> Iterator[View]:
    """Yield what the rules look at: only what is in doubt, of which all columns that they need are shuffled."""
    is_cause, always = f.col("is_cause"), f.lit(True)
    if doubts.ids != []:
        yield _together(events, _is_answer(application), doubts.ids), {BY_ID: is_cause, CAUSED: ~is_cause}
    if doubts.is_uncaused:
        yield _uncaused(events), {CAUSED: always}
    if doubts.emitters != []:
        yield _in_turn(events.filter(graph.is_emitted()), doubts.emitters), {IN_TURN: always}
    if doubts.is_misplaced:
        home = partition_of({topic.name: topic for topic in application.choreography.topics})
        at_home = f.when(f.col("key").isNotNull(), home("topic", "key"))
        yield events.select(*_ABOUT, "partition", at_home.alias("home")), {EACH: always}


def _in_turn(emitted: DataFrame, doubtful: Sequence[str] | None) -> DataFrame:
    """Return events with the number and the id of the one before, of the same emitter."""
    if doubtful is not None:
        named = f.concat_ws(SEPARATOR, "source", f.coalesce("subject", f.lit("")))
        emitted = emitted.filter(named.isin(*doubtful))
    # Keys come first: Spark sorts by the first column's first bytes, and sources share theirs.
    in_turn = Window.partitionBy("subject", "source").orderBy("recorded_at", "sequence", "topic", "offset")
    before = {"before": f.lag("sequence").over(in_turn), "before_id": f.lag("id").over(in_turn)}
    return emitted.select(*_ABOUT, "sequence", *(column.alias(name) for name, column in before.items()))


_CAUSE = {"id": "cause_id", "type": "cause_type", "recorded_at": "cause_at", "correlation_id": "cause_saga"}


def _is_answer(application: Application) -> Column:
    deciders = application.choreography.deciders
    types = {contract_of(e).type for d in deciders for effect in d.effects.values() for e in effect.emits}
    return f.coalesce(f.col("type").isin(*types), f.lit(False))


def _together(events: DataFrame, is_answer: Column, doubtful: Sequence[str] | None) -> DataFrame:
    """Return each event twice: as a cause, under its id, and under the id of its own cause, with that one's headers.

    Only under doubtful ids, or all ids without them. `copies` are the events that have the id, `answers` how many of its
    source have answered it.
    """
    nothing = f.lit(None).cast("int")
    parts = [
        _headers(events, "id", f.lit(True), nothing),
        _headers(events.filter(~is_answer), "causation_id", f.lit(False), nothing),
        _headers(events.filter(is_answer), "causation_id", f.lit(False), _answers()),
    ]
    both = reduce(DataFrame.unionAll, parts)
    if doubtful is not None:
        both = both.filter(f.col("of_id").isin(*doubtful))
    # The earliest of them counts as the cause. One window for all that is looked up: they are sorted once.
    of_id = Window.partitionBy("of_id").orderBy(~f.col("is_cause"), "recorded_at").rowsBetween(*_ALL)
    found = both.withColumns({
        "cause": f.first(f.when(f.col("is_cause"), f.struct(*_CAUSE))).over(of_id),
        "copies": f.count_if("is_cause").over(of_id),
    })  # fmt: skip
    causes = {as_: f.col("cause")[name] for name, as_ in _CAUSE.items()}
    return found.withColumns({"causation_id": f.col("of_id"), **causes})


def _answers() -> Column:
    """Return how many answers of one source an answer's cause has: they are few, and are counted by themselves."""
    return f.size(f.collect_set("id").over(Window.partitionBy("causation_id", "source")))


_ALL = Window.unboundedPreceding, Window.unboundedFollowing


def _uncaused(events: DataFrame) -> DataFrame:
    """Return events that name no cause, with the same columns; there is nothing to look up."""
    kinds = {"cause_id": "string", "cause_type": "string", "cause_at": "timestamp", "cause_saga": "string"}
    nothing = {name: f.lit(None).cast(kind) for name, kind in {**kinds, "answers": "int"}.items()}
    return events.filter(f.col("causation_id").isNull()).withColumns(nothing)


def _headers(events: DataFrame, of_id: str, is_cause: Column, answers: Column) -> DataFrame:
    there = events.filter(f.col(of_id).isNotNull())
    named = (f.col(of_id).alias("of_id"), is_cause.alias("is_cause"), answers.alias("answers"))
    return there.select(*named, *_ABOUT, "recorded_at", "correlation_id")
