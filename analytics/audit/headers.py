"""The rules about every event's headers: its id, its location, its cause, and its emitter."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import reduce

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f

from analytics.audit.application import Application
from analytics.audit.finding import FINDING, Rule
from analytics.audit.graph import Graph
from analytics.audit.header_doubts import doubts_of
from analytics.audit.header_views import BY_ID, CAUSED, EACH, IN_TURN, header_views
from analytics.audit.order import in_order
from analytics.audit.routing import NONE_RESET, Clocks, constant_of
from analytics.log import log

_SEPARATOR = "\x1f"


@dataclass(frozen=True)
class HeaderRule:
    """A rule on the columns of one of the `header_views`: the condition of a violation, and its message."""

    rule: Rule
    on: str
    broken: Callable[[Graph], Column]
    told: Callable[[], Column]
    also: str = "cause_id"


def _among(known: frozenset[tuple[str, ...]], *columns: str) -> Column:
    joined = f.concat_ws(_SEPARATOR, *(f.coalesce(f.col(name), f.lit("?")) for name in columns))
    return joined.isin([_SEPARATOR.join(each) for each in known])


def _is_later() -> Column:
    return f.col("cause_at") > f.col("recorded_at")


def _recorded(sentence: str) -> Column:
    at = f.col("recorded_at").cast("string"), f.col("cause_at").cast("string")
    return f.format_string(sentence, f.col("type"), f.col("cause_type"), *at)


def _step_known(graph: Graph) -> Column:
    by_service = _among(graph.steps, "source", "cause_type", "type") | _among(graph.late, "source", "type")
    return f.when(graph.is_emitted(), f.col("cause_type").isNull() | by_service).otherwise(
        f.col("type").isin(*graph.entries)
    )


def _sequence_broken(graph: Graph) -> Column:
    follows = f.col("sequence") == f.coalesce(f.col("before"), f.lit(0)) + 1
    anew = f.col("source").isin(*graph.forgetting) & (f.col("sequence") == 1)
    return graph.is_emitted() & ~f.coalesce(follows | anew, f.lit(False))


def _misplaced(graph: Graph) -> Column:
    return (constant_of("type", graph.topics) != f.col("topic")) | (f.col("home") != f.col("partition"))


HEADER_RULES = (
    HeaderRule(
        Rule("id-twice", "error", "An event's id is on the log once; only a request may come twice."),
        BY_ID,
        lambda graph: (f.col("copies") > 1) & ~f.col("type").isin(*graph.requests),
        lambda: f.format_string("%s is on the log %d times with one id.", "type", "copies"),
        also="id",
    ),
    HeaderRule(
        Rule("sequence", "error", "What a decider says under a key is numbered from 1 without a gap."),
        IN_TURN,
        _sequence_broken,
        lambda: f.format_string(
            "%s of %s is number %s there, after number %s.",
            f.col("type"),
            f.concat_ws(" ", "source", "subject"),
            f.coalesce(f.col("sequence").cast("string"), f.lit("(none)")),
            f.coalesce(f.col("before").cast("string"), f.lit("0")),
        ),
        also="before_id",
    ),
    HeaderRule(
        Rule("cause-missing", "error", "What a service says names its cause, and that is on the log."),
        CAUSED,
        lambda graph: graph.is_emitted() & f.col("cause_id").isNull(),
        lambda: f.format_string(
            "%s names %s as its cause, which is not on the log.",
            f.col("type"),
            f.coalesce("causation_id", f.lit("nothing")),
        ),
        also="causation_id",
    ),
    HeaderRule(
        Rule("cause-later", "error", "Nothing is recorded before its cause."),
        CAUSED,
        lambda graph: _is_later() & ~f.col("cause_type").isin(*graph.entries),
        lambda: _recorded("%s was recorded before its cause, %s: at %s and at %s."),
    ),
    HeaderRule(
        Rule("cause-ahead", "warning", "A client's event is recorded before what follows from it."),
        CAUSED,
        lambda graph: _is_later() & f.col("cause_type").isin(*graph.entries),
        lambda: _recorded(
            "%s was recorded before its cause, %s, at %s and at %s: the clock of who wrote that was ahead."
        ),
    ),
    HeaderRule(
        Rule("conformance", "error", "Every step is one that the code can take: who says what about what."),
        CAUSED,
        lambda graph: ~_step_known(graph),
        lambda: f.format_string(
            "%s cannot emit %s for %s.",
            f.coalesce("source", f.lit("nobody")),
            f.coalesce("type", f.lit("an event without a type")),
            f.coalesce("cause_type", f.lit("nothing")),
        ),
    ),
    HeaderRule(
        Rule("saga-mixed", "error", "An event belongs to the saga of its cause."),
        CAUSED,
        lambda graph: (
            graph.is_emitted()
            & (f.col("correlation_id") != f.col("cause_saga"))
            & ~f.col("cause_type").isin(*graph.requests)
        ),
        lambda: f.format_string("%s belongs to another saga than %s, its cause.", "type", "cause_type"),
    ),
    HeaderRule(
        Rule("answered-twice", "error", "The outside world's answer enters the log once for each request."),
        CAUSED,
        lambda graph: (f.col("answers") > 1) & _among(graph.effects, "source", "cause_type"),
        lambda: f.format_string("%s was answered %d times.", "cause_type", "answers"),
    ),
    HeaderRule(
        Rule("misplaced", "error", "An event stands on its topic, in the partition of its key."),
        EACH,
        _misplaced,
        lambda: f.format_string(
            "%s with key %s is in %s/%d.", f.col("type"), f.col("key"), f.col("topic"), f.col("partition")
        ),
        also="id",
    ),
)


def header_findings(spark: SparkSession, url: str, application: Application, clocks: Clocks = NONE_RESET) -> DataFrame:
    """Return the findings of the rules on headers among a log's events; `clocks` order them."""
    graph, story = Graph.of(application.choreography), application.story()
    doubts = doubts_of(spark, url, application, graph, clocks)
    events = in_order(log(spark, url, topics=application.topics), application, clocks)
    views = header_views(events, application, graph, doubts)
    nothing = spark.createDataFrame([], FINDING)
    found = reduce(DataFrame.unionAll, [_found(rows, kinds, graph, story) for rows, kinds in views], nothing)
    return found.dropDuplicates(["rule", "order", "evidence"]).select(*FINDING.names)


def _found(rows: DataFrame, kinds: Mapping[str, Column], graph: Graph, story: Column) -> DataFrame:
    found = [f.when(kinds[each.on], _finding(each, graph, story)) for each in HEADER_RULES if each.on in kinds]
    each = f.explode(f.filter(f.array(*found), lambda one: one.isNotNull()))
    return rows.select(each.alias("found")).select("found.*")


def _finding(each: HeaderRule, graph: Graph, story: Column) -> Column:
    evidence = f.array_distinct(f.filter(f.array("id", each.also), lambda one: one.isNotNull()))
    about = f.concat_ws(" ", f.coalesce("source", f.lit("outside")), f.coalesce("subject", "key"))
    columns = (f.lit(each.rule.name), f.lit(each.rule.severity), story, about, evidence, each.told())
    named = [column.alias(name) for column, name in zip(columns, FINDING.names, strict=True)]
    return f.when(f.coalesce(each.broken(graph), f.lit(False)), f.struct(*named))
