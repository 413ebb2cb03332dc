"""The report's parts for any choreography, and what an application writes its own parts with.

In a notebook a part shows itself: `report.outcomes(tables, shop)` has `.frame`, `.rows` and `.plot()`. `tables` are the
rebuilt ones, from `analytics.rebuilding.tables(spark, DIR)`. An application names its own parts with `Choreography(...,
analytics="package.module")`: a `Report` called `report` in that module.
"""

from collections.abc import Callable, Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from analytics.audit.finding import Rule
from analytics.reporting import charts, sagas
from analytics.reporting.charts import counted, diagram, first_bars, main_currencies, top_money
from analytics.reporting.console_pages import parked_page, saga_page, sagas_page
from analytics.reporting.drawing import SERIES, canvas, styled
from analytics.reporting.money import money, short, short_money
from analytics.reporting.part import Column, Part, Report, Row, Section, Tables, Tile, duration
from analytics.reporting.sagas import percentiles, reversing
from eventlib.model.choreography import Choreography

__all__ = [
    "PERCENTILES", "SERIES", "TABLES", "Column", "Part", "Report", "Row", "Section", "Tables", "Tile",
    "canvas", "compensations", "counted", "deadlines", "duration", "effects", "findings", "first_bars", "flow", "funnel",
    "main_currencies", "money", "outcomes", "parked", "percentiles", "reversing", "rules", "saga_page", "sagas_page", "sections", "short", "short_money", "step_times", "stuck", "styled", "top_money",
    "totals", "waiting",
]  # fmt: skip

TABLES = ("saga_steps", "sagas", "effects", "parked", "deadlines")
"""The tables that every report reads."""

PERCENTILES = (Column("p50_ms", "p50", "ms"), Column("p95_ms", "p95", "ms"), Column("p99_ms", "p99", "ms"))


def totals(tables: Tables) -> Part:
    """Return how many sagas there are, and how long they took."""
    columns = (
        Column("sagas", "sagas", "count", lambda _: "/sagas"),
        Column("open", "open", "count", lambda row: sagas_page({"outcome": sagas.OPEN}) if row["open"] else ""),
        *(Column("compensated", "with compensations", "count"), *PERCENTILES),
    )
    return Part("sagas", "Sagas", "From the first event to the last.", columns, sagas.totals(tables))


def flow(tables: Tables, choreography: Choreography) -> Part:
    """Return the diagram of the choreography with the events that took each arrow."""
    return Part(
        "flow",
        "What led to what",
        "On each arrow, how many events took it, and the time from cause to event that 95 of 100 did not exceed.",
        (
            *(Column("cause_type", "after"), Column("type", "came"), Column("source", "emitted by")),
            *(Column("events", "events", "count"), Column("p95_ms", "p95", "ms")),
        ),
        sagas.flow(tables),
        diagram(choreography),
    )


def funnel(tables: Tables, choreography: Choreography) -> Part:
    """Return how many sagas had each event that a good end needs."""
    return Part(
        "funnel",
        "How far sagas came",
        "The events that sagas have which end well, and how many of all sagas have them.",
        (
            *(Column("stage", "event"), Column("sagas", "sagas", "count"), Column("share", "of all", "share")),
            Column("lost", "lost before", "count"),
        ),
        sagas.funnel(tables, choreography),
        counted(
            lambda row: str(row["stage"]), "sagas", lambda row: f"{row['sagas']:,} · {row['share'] or 0:.1%}", most=0
        ),
        lambda rows: "; ".join(f"{row['stage']}: {row['sagas']:,}" for row in rows) + ".",
        nothing="No saga has ended well yet.",
    )


def outcomes(tables: Tables) -> Part:
    """Return how sagas ended, and why."""
    return Part(
        "outcomes",
        "How sagas ended",
        "By the event that ended them and its reason; the times are those from the first event to the last.",
        (
            *(
                Column("outcome", "outcome"),
                Column("reason", "reason"),
                Column("sagas", "sagas", "count", _with_outcome),
            ),
            *(Column("share", "share", "share"), *PERCENTILES),
        ),
        sagas.outcomes(tables),
        counted(_outcome, "sagas", lambda row: f"{row['sagas']:,}", SERIES[1]),
        first_bars(_outcome, Column("sagas", "", "count")),
    )


def step_times(tables: Tables, choreography: Choreography) -> Part:
    """Return how long steps take."""
    return Part(
        "steps",
        "Time per step",
        "From an event to what it led to: half of the steps took no longer than p50, 95 of 100 no longer than p95, "
        "99 of 100 no longer than p99.",
        (Column("cause_type", "after"), Column("type", "came"), Column("events", "events", "count"), *PERCENTILES),
        sagas.step_times(tables, choreography),
        charts.steps,
        lambda rows: f"The slowest step at p99 is {_slowest(rows)}.",
    )


def compensations(tables: Tables, choreography: Choreography) -> Part:
    """Return what was undone."""
    return Part(
        "compensations",
        "What was undone",
        "Events that make up for others.",
        (Column("type", "event"), Column("events", "events", "count"), Column("sagas", "sagas", "count")),
        sagas.compensations(tables, choreography),
        counted(lambda row: str(row["type"]), "events", lambda row: f"{row['events']:,}", SERIES[3]),
        first_bars(lambda row: str(row["type"]), Column("events", "", "count")),
    )


def waiting(tables: Tables) -> Part:
    """Return what open sagas wait for."""
    return Part(
        "waiting",
        "What open sagas wait for",
        "Sagas that have not ended, and for how long the one without an event for longest waits, until the log's end.",
        (Column("waits_for", "waits for"), Column("sagas", "sagas", "count"), Column("longest_ms", "longest", "ms")),
        sagas.waiting(tables),
        counted(lambda row: str(row["waits_for"]), "sagas", lambda row: f"{row['sagas']:,}", SERIES[1]),
        first_bars(lambda row: str(row["waits_for"]), Column("sagas", "", "count")),
        nothing="Every saga has ended.",
    )


def stuck(tables: Tables) -> Part:
    """Return the open sagas without an event for longest."""
    return Part(
        "stuck",
        "Sagas without an event for longest",
        "The command eventlib saga ID shows each of them.",
        (
            Column("saga", "saga", page=lambda row: saga_page(row["saga"])),
            *(Column("waits_for", "waits for"), Column("waiting_ms", "for", "ms")),
            *(Column("steps", "events", "count"), Column("started_at", "began"), Column("last_at", "last event")),
        ),
        sagas.stuck(tables),
        nothing="Every saga has ended.",
    )


def parked(tables: Tables) -> Part:
    """Return what was parked."""
    return Part(
        "parked",
        "What was parked",
        "Inputs that could not be handled, and how many of them still wait for a person (eventlib parked list).",
        (
            *(Column("service", "service"), Column("decider", "decider"), Column("reason", "reason")),
            *(Column("parked", "parked", "count"), Column("still", "still parked", "count", _of_cause)),
        ),
        sagas.parked(tables),
        nothing="Nothing.",
    )


def effects(tables: Tables) -> Part:
    """Return what was asked of the outside world."""
    return Part(
        "effects",
        "What the outside world was asked",
        "Effects by port: how many were answered, after how many attempts, and the time from request to answer.",
        (
            *(Column("port", "port"), Column("handler", "effect"), Column("asked", "asked", "count")),
            *(Column("answered", "answered", "count"), Column("parked", "parked", "count")),
            *(Column("attempts", "attempts each", "number"), *PERCENTILES),
        ),
        sagas.effects(tables),
        nothing="Nothing was asked.",
    )


def deadlines(tables: Tables) -> Part:
    """Return the deadlines that were set."""
    return Part(
        "deadlines",
        "Deadlines",
        "How many were set, how many have passed, and how many were cancelled, since what they waited for came.",
        (
            *(Column("service", "service"), Column("decider", "decider"), Column("name", "deadline")),
            *(Column("set", "set", "count"), Column("passed", "passed", "count")),
            Column("cancelled", "cancelled", "count"),
        ),
        sagas.deadlines(tables),
        nothing="None was set.",
    )


def rules(findings: DataFrame, declared: Sequence[Rule]) -> Part:
    """Return the number of violations of each rule of the audit; `findings` is the result of `analytics.audit.audit`."""
    spark = findings.sparkSession
    schema = "number int, rule string, severity string, says string"
    known = spark.createDataFrame([(i, r.name, r.severity, r.sentence) for i, r in enumerate(declared)], schema)
    found = findings.groupBy("rule").agg(f.count("*").alias("findings"))
    count = f.coalesce("findings", f.lit(0)).alias("findings")
    frame = known.join(found, "rule", "left").select("number", "rule", "says", "severity", count)
    return Part(
        "rules",
        "What the audit looked for",
        "Every rule, over every event on the log.",
        (
            *(Column("rule", "rule"), Column("says", "what has to hold"), Column("severity", "severity")),
            Column("findings", "findings", "count"),
        ),
        frame.orderBy(f.desc("findings"), "number").drop("number"),
    )


def findings(found: DataFrame) -> Part:
    """Return the audit's findings."""
    names = ("severity", "rule", "order", "about", "sentence")
    columns = [Column(name, name) for name in names]
    columns[2] = Column("order", "saga", page=lambda row: saga_page(row["order"]))
    return Part(
        "findings",
        "What the audit found",
        "Each line names the violation, and the saga.",
        columns,
        found.select(*names).orderBy(*names),
        nothing="Nothing: every rule below holds.",
    )


def sections(choreography: Choreography) -> list[Section]:
    """Return the sections that every report has, without the audit's."""

    def of(part: Callable[[Tables, Choreography], Part]) -> Callable[[Tables], Part]:
        return lambda tables: part(tables, choreography)

    return [
        Section("flow", "Flow", [of(flow), totals]),
        Section("outcomes", "Outcomes", [of(funnel), outcomes]),
        Section("time", "Time", [of(step_times)]),
        Section("undone", "Undone", [of(compensations)]),
        Section("waiting", "Waiting", [waiting, stuck, parked]),
        Section("effects", "Effects", [effects, deadlines]),
    ]


def _with_outcome(row: Row) -> str:
    return sagas_page({name: row[name] for name in ("outcome", "reason")})


def _of_cause(row: Row) -> str:
    return parked_page({name: row[name] for name in ("service", "decider", "reason")}) if row["still"] else ""


def _outcome(row: Row) -> str:
    return f"{row['outcome']}: {row['reason']}" if row["reason"] else str(row["outcome"])


def _slowest(rows: Sequence[Row]) -> str:
    row = max(rows, key=lambda row: row["p99_ms"])
    return f"{row['cause_type']} to {row['type']}, {duration(row['p99_ms'])}"
