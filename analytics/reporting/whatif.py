"""The report of an alternative past: how many sagas end otherwise, what that costs, which are the first, and why."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import NamedTuple

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from analytics.reporting.money import money
from analytics.reporting.page import Head, MadeSection, offsets_read, rendered
from analytics.reporting.part import Column, Part, Tile
from analytics.whatif.figures import Figure
from eventlib.log.base import TopicPartition

TITLE = "What would have been"

_FIRST = 30

_MEANINGS = {
    "recorded": "as the log has it: external events, and answers to questions that are the same",
    "decided": "emitted by the rules of --with",
    "modelled": "supposed: answers of the declared model, and changed external events",
}


class Question(NamedTuple):
    """What was asked, of which log and offsets, and how long the answer took (s)."""

    log: str
    rules: Sequence[tuple[str, str]]
    figures: Sequence[Figure]
    read: dict[TopicPartition, range]
    seconds: float


class Summary(NamedTuple):
    """The result in numbers: sagas, those that end otherwise, those that differ at all, and how events came to be."""

    sagas: int
    otherwise: int
    differing: int
    failed: int
    modelled_answers: int
    sums: Sequence[dict[str, object]]


def summary(sagas: DataFrame, figures: Sequence[Figure]) -> Summary:
    """Return an alternative past's result in numbers."""
    counts = {
        "sagas": f.count("*"),
        "otherwise": f.count_if(f.col("outcome_then") != f.col("outcome_now")),
        "differing": f.count_if(f.col("first_difference").isNotNull()),
        "failed": f.count_if(f.col("failed") > 0),
        "modelled_answers": f.coalesce(f.sum("answers.modelled"), f.lit(0)),
    }
    (row,) = sagas.agg(*(column.alias(name) for name, column in counts.items())).collect()
    return Summary(**row.asDict(), sums=[each for figure in figures for each in _sums(sagas, figure)])


def _sums(sagas: DataFrame, figure: Figure) -> list[dict[str, object]]:
    currency, then, now = figure.columns
    found = sagas.groupBy(f.col(currency).alias("currency")).agg(f.sum(then).alias("then"), f.sum(now).alias("now"))
    rows = found.where("then != 0 OR now != 0").orderBy("currency").collect()
    return [{"name": figure.name, **row.asDict(), "change": row["now"] - row["then"]} for row in rows]


def whatif_page(events: DataFrame, sagas: DataFrame, result: Summary, question: Question) -> str:
    """Return the report as HTML."""
    sections = [
        MadeSection("outcomes", "Outcomes", [_outcomes(sagas), _reasons(sagas)]),
        MadeSection("sums", "Sums", [_sums_part(sagas, result)]),
        MadeSection("why", "Why", [_causes(sagas), _firsts(sagas)]),
        MadeSection("origin", "Recorded or supposed", [_origins(events)]),
    ]
    shown = [section for section in sections if any(part.rows for part in section.parts)]
    return rendered(TITLE, _head(result, question), shown)


def _head(result: Summary, question: Question) -> Head:
    share = f"{result.otherwise / result.sagas:.1%}" if result.sagas else "none"
    tiles = [
        Tile(f"{result.sagas:,}", "sagas decided again"),
        Tile(f"{result.otherwise:,}", f"end otherwise: {share}"),
        Tile(f"{result.differing:,}", "differ in any event"),
        Tile(f"{result.modelled_answers:,}", "answers from the model"),
    ]
    if result.failed:
        tiles.append(Tile(f"{result.failed:,}", "have a handler that raised", "bad"))
    tiles += [Tile(_signed(row), f"{row['name']}, more or less than then") for row in result.sums]
    sentence = (
        "The log decided again by other rules: recorded inputs in the recorded order, recorded answers where the question "
        "is the same, and modelled ones where it was never asked."
    )
    made = f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S} UTC, in {question.seconds:.1f} s"
    facts = [("Log", question.log), *question.rules, ("Made", made)]
    return Head(sentence, tiles, facts, offsets_read(question.read))


def _signed(row: dict[str, object]) -> str:
    change = int(str(row["change"]))
    return f"{'+' if change > 0 else ''}{_amount(change, row['currency'])}"


def _amount(amount: int, currency: object) -> str:
    return f"{amount:,}" if currency is None else money(amount, str(currency))


def _outcomes(sagas: DataFrame) -> Part:
    says = "How sagas ended then, and how they end now: each row is one pair."
    counted = sagas.groupBy("outcome_then", "outcome_now").agg(f.count("*").alias("sagas"))
    columns = (Column("outcome_then", "then"), Column("outcome_now", "now"), Column("sagas", "sagas", "count"))
    return Part(
        "outcomes", "How sagas end", says, columns, counted.orderBy(f.desc("sagas"), "outcome_then", "outcome_now")
    )


def _reasons(sagas: DataFrame) -> Part:
    says = "The reasons of the events that end sagas, where these changed."
    changed = sagas.where("NOT (outcome_then <=> outcome_now AND reason_then <=> reason_now)")
    counted = changed.groupBy("reason_then", "reason_now").agg(f.count("*").alias("sagas"))
    columns = (Column("reason_then", "then"), Column("reason_now", "now"), Column("sagas", "sagas", "count"))
    return Part(
        "reasons", "Reasons that changed", says, columns, counted.orderBy(f.desc("sagas"), "reason_then", "reason_now")
    )


def _sums_part(sagas: DataFrame, result: Summary) -> Part:
    rows = [
        (str(row["name"]), *(_amount(int(str(row[each])), row["currency"]) for each in ("then", "now")), _signed(row))
        for row in result.sums
    ]
    frame = sagas.sparkSession.createDataFrame(rows, "name string, then string, now string, change string")
    columns = tuple(Column(name, name) for name in ("name", "then", "now", "change"))
    return Part("sums", "Sums", "Summed over all sagas, from the fields that were named.", columns, frame)


def _causes(sagas: DataFrame) -> Part:
    says = "The first difference of each saga: which function decided otherwise, what it emitted then, and what now."
    first = sagas.where("first_difference IS NOT NULL").select("first_difference.*", "outcome_then", "outcome_now")
    counted = first.groupBy("handler", "type_then", "type_now").agg(
        f.count("*").alias("sagas"), f.count_if(f.col("outcome_then") != f.col("outcome_now")).alias("otherwise")
    )
    columns = (
        Column("handler", "decided by"),
        Column("type_then", "then"),
        Column("type_now", "now"),
        Column("sagas", "sagas", "count"),
        Column("otherwise", "end otherwise", "count"),
    )
    ordered = counted.orderBy(f.desc("sagas"), "handler", "type_then", "type_now")
    return Part("why", "Why they differ", says, columns, ordered)


def _firsts(sagas: DataFrame) -> Part:
    says = "The sagas that were the first to differ, in the order of time, and where on the log that was."
    first = sagas.where("first_difference IS NOT NULL").select(
        "saga", "outcome_then", "outcome_now", "first_difference.*"
    )
    columns = (
        Column("saga", "saga"),
        Column("outcome_then", "then"),
        Column("outcome_now", "now"),
        Column("type", "first difference"),
        Column("handler", "decided by"),
        Column("position", "at"),
    )
    return Part("first", "The first ones", says, columns, first.orderBy("at", "saga").limit(_FIRST))


def _origins(events: DataFrame) -> Part:
    says = "Every event of the alternative past, by where it comes from: each row of `whatif_events` says so."
    meaning = f.create_map(*(f.lit(text) for pair in _MEANINGS.items() for text in pair))[f.col("origin")]
    now = events.where("difference NOT IN ('missing', 'failed')").groupBy("origin", "difference")
    counted = now.agg(f.count("*").alias("events")).withColumn("meaning", meaning)
    columns = (
        Column("origin", "origin"),
        Column("difference", "compared with then"),
        Column("events", "events", "count"),
        Column("meaning", "which is"),
    )
    return Part("origins", "Recorded or supposed", says, columns, counted.orderBy("origin", "difference"))
