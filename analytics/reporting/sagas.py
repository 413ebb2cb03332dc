"""Figures of any choreography's sagas, from the rebuilt tables: flow, funnel, outcomes, steps, and what is stuck."""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f
from pyspark.sql.window import Window

from analytics.reporting.part import Tables
from eventlib.analysis.event_graph import EventGraph
from eventlib.model.choreography import Choreography
from eventlib.model.event import contract_of

_PERCENTILES = {"p50_ms": 0.5, "p95_ms": 0.95, "p99_ms": 0.99}
_NEARLY_ALL = 0.95
OPEN = "open"
"""The outcome of a saga that has not ended."""


def percentiles(of: str) -> list[Column]:
    """Return columns with the median of a column of milliseconds, and what 95 and 99 of 100 do not exceed."""
    found = f.percentile(of, f.array(*(f.lit(share) for share in _PERCENTILES.values())))
    return [found[i].alias(name) for i, name in enumerate(_PERCENTILES)]


def saga_column(steps: DataFrame) -> str:
    """Return the name of the column with a step's saga: the first one."""
    return steps.columns[0]


def flow(tables: Tables) -> DataFrame:
    """Return how often each event was emitted because of which, and by which decider: `p95_ms` from cause to event."""
    steps = tables["saga_steps"]
    late = f.percentile("since_cause_ms", f.lit(0.95)).cast("bigint").alias("p95_ms")
    return steps.groupBy("cause_type", "type", "source").agg(f.count("*").alias("events"), late)


def funnel(tables: Tables, choreography: Choreography) -> DataFrame:
    """Return how many sagas had each event that a good end needs, in the order in which they come.

    These are the events that nearly all sagas had which ended with an event that is no failure and undoes nothing. With the
    share of all sagas, and how many were lost before each.
    """
    steps = tables["saga_steps"]
    saga, good = saga_column(steps), f.col("type").isin(*_good_ends(choreography))
    first, ended = f.min("recorded_at").alias("started_at"), f.max(good).alias("ended_well")
    whole = steps.join(steps.groupBy(saga).agg(first, ended), saga)
    since = f.when(f.col("ended_well"), f.unix_millis("recorded_at") - f.unix_millis("started_at"))
    by_type = whole.groupBy("type").agg(
        f.countDistinct(saga).alias("sagas"),
        f.countDistinct(f.when(f.col("ended_well"), f.col(saga))).alias("well"),
        f.median(since).alias("after"),
    )
    in_order = Window.orderBy("after", f.desc("sagas"), "type")
    every = Window.partitionBy()
    needed = by_type.withColumn("most", f.max("well").over(every)).filter(f.col("well") >= f.col("most") * _NEARLY_ALL)
    found = needed.filter("most > 0").withColumns({
        "number": f.row_number().over(in_order),
        "share": f.col("sagas") / f.first("sagas").over(in_order),
        "lost": f.coalesce(f.lag("sagas").over(in_order) - f.col("sagas"), f.lit(0)),
    })  # fmt: skip
    return found.orderBy("number").select(f.col("type").alias("stage"), "sagas", "share", "lost")


def _good_ends(choreography: Choreography) -> list[str]:
    graph = EventGraph(choreography)
    ends = (event for event in choreography.events if contract_of(event).final)
    return [contract_of(event).type for event in ends if event not in graph.failures | graph.compensating]


def totals(tables: Tables) -> DataFrame:
    """Return one row: the sagas, how many are open and how many needed compensation, and the times that they took."""
    return tables["sagas"].agg(
        f.count("*").alias("sagas"),
        f.count_if(f.col("outcome") == OPEN).alias("open"),
        f.count_if(f.col("compensations") > 0).alias("compensated"),
        *percentiles("duration_ms"),
    )


def outcomes(tables: Tables) -> DataFrame:
    """Return the sagas by outcome and reason, with the times that they took; the most frequent first."""
    found = tables["sagas"].groupBy("outcome", "reason")
    every = found.agg(f.count("*").alias("sagas"), *percentiles("duration_ms"))
    share = f.col("sagas") / f.sum("sagas").over(Window.partitionBy())
    return every.withColumn("share", share).orderBy(f.desc("sagas"), "outcome", "reason")


def step_times(tables: Tables, choreography: Choreography) -> DataFrame:
    """Return how long each kind of step took since its cause, in ms: the median, and the slowest 5 and 1 in 100."""
    in_order = [contract_of(event).type for event in choreography.events]
    steps = tables["saga_steps"].filter(f.col("since_cause_ms").isNotNull())
    found = steps.groupBy("cause_type", "type").agg(f.count("*").alias("events"), *percentiles("since_cause_ms"))
    place = [f.array_position(f.array(*map(f.lit, in_order)), f.col(name)) for name in ("cause_type", "type")]
    return found.orderBy(*place, "cause_type", "type")


def compensations(tables: Tables, choreography: Choreography) -> DataFrame:
    """Return the compensations: events and sagas by type, the most frequent first."""
    steps = tables["saga_steps"].filter(f.col("type").isin(*reversing(choreography)))
    sums = f.count("*").alias("events"), f.countDistinct(saga_column(steps)).alias("sagas")
    return steps.groupBy("type").agg(*sums).orderBy(f.desc("events"), "type")


def reversing(choreography: Choreography) -> list[str]:
    """Return the types of the events that make up for others."""
    return [contract_of(event).type for event in choreography.events if contract_of(event).reverses]


def waiting(tables: Tables) -> DataFrame:
    """Return what open sagas wait for: how many, and for how long until the log's end, in ms."""
    found = _open(tables).groupBy("waits_for")
    oldest = f.max("waiting_ms").alias("longest_ms")
    return found.agg(f.count("*").alias("sagas"), oldest).orderBy(f.desc("sagas"), "waits_for")


def stuck(tables: Tables) -> DataFrame:
    """Return the open sagas without an event for longest, with what they wait for."""
    columns = ("saga", "waits_for", "waiting_ms", "steps", "started_at", "last_at")
    return _open(tables).select(*columns).orderBy(f.desc("waiting_ms"), "saga").limit(20)


def _open(tables: Tables) -> DataFrame:
    """Return the open sagas with what they wait for: a person first, then an answer, then a deadline, or an event."""
    parked = tables["parked"].filter(f.col("released_at").isNull())
    pending = tables["deadlines"].filter(f.col("passed_at").isNull() & f.col("cancelled_at").isNull())
    of_person = parked.groupBy("saga").agg(f.min(f.concat(f.lit("parked:"), "decider")).alias("person"))
    name = f.concat(f.lit("deadline:"), "decider", f.lit("."), "name")
    of_deadline = pending.groupBy("saga").agg(f.min_by(name, "due_at").alias("deadline"))
    ends = tables["saga_steps"].agg(f.max("recorded_at").alias("ends_at"))
    found = tables["sagas"].filter(f.col("outcome") == OPEN).crossJoin(ends)
    answer = f.when(f.col("waits_for") != "event", f.col("waits_for"))
    waits_for = f.coalesce("person", answer, "deadline", "waits_for")
    waiting_ms = f.unix_millis("ends_at") - f.unix_millis("last_at")
    joined = found.join(of_person, "saga", "left").join(of_deadline, "saga", "left")
    return joined.withColumns({"waits_for": waits_for, "waiting_ms": waiting_ms})


def effects(tables: Tables) -> DataFrame:
    """Return what was asked of the outside world, by port and handler: answers, attempts, and times in ms."""
    is_open = f.col("outcome").isin(OPEN, "parked")
    return (
        tables["effects"]
        .groupBy("port", "handler")
        .agg(
            f.count("*").alias("asked"),
            f.count_if(~is_open).alias("answered"),
            f.count_if(f.col("outcome") == "parked").alias("parked"),
            f.avg("attempts").alias("attempts"),
            *percentiles("latency_ms"),
        )
        .orderBy("port", "handler")
    )


def parked(tables: Tables) -> DataFrame:
    """Return what was parked, by decider and reason: how much, and how much still is; the most frequent first."""
    still = f.count_if(f.col("released_at").isNull()).alias("still")
    found = tables["parked"].groupBy("service", "decider", "reason")
    return found.agg(f.count("*").alias("parked"), still).orderBy(
        f.desc("still"), f.desc("parked"), "decider", "reason"
    )


def deadlines(tables: Tables) -> DataFrame:
    """Return the deadlines that were set, by decider: how many have passed, and how many were no longer needed."""
    return (
        tables["deadlines"]
        .groupBy("service", "decider", "name")
        .agg(
            f.count("*").alias("set"),
            f.count("passed_at").alias("passed"),
            f.count("cancelled_at").alias("cancelled"),
        )
        .orderBy("service", "decider", "name")
    )
