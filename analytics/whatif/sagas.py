"""What became of each saga, then and now, from the rows of both pasts."""

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

from analytics.whatif.figures import Figure

OPEN = "open"
"""The outcome of a saga that has not ended."""


def sagas_of(events: DataFrame, figures: Sequence[Figure]) -> DataFrame:
    """Return one row for each saga: outcomes, reasons, sums, how many answers were modelled, and its first difference."""
    differs = f.col("difference") != "unchanged"
    place = f.concat_ws("/", "topic", "partition", "offset")
    first = f.struct(
        place.alias("position"),
        f.coalesce("type_now", "type_then").alias("type"),
        "handler",
        "difference",
        "type_then",
        "type_now",
        "id",
        f.coalesce("at_now", "at_then").alias("at"),
    )
    answers = f.struct(
        f.count_if(f.col("is_answer") & (f.col("origin") == "recorded")).alias("recorded"),
        f.count_if(f.col("is_answer") & (f.col("origin") == "modelled")).alias("modelled"),
    )
    sums = [column for figure in figures for column in _sums(figure)]
    return (
        events.where("saga != ''")
        .groupBy("saga")
        .agg(
            *(_outcome(when).alias(f"outcome_{when}") for when in ("then", "now")),
            *(_last(f"reason_{when}", when).alias(f"reason_{when}") for when in ("then", "now")),
            *(f.count(f"type_{when}").alias(f"events_{when}") for when in ("then", "now")),
            f.count_if(f.col("difference") == "failed").alias("failed"),
            answers.alias("answers"),
            *sums,
            f.min(f.when(differs, f.col("position"))).alias("first_number"),
            f.min_by(first, f.when(differs, f.col("position"))).alias("first_difference"),
        )
        .drop("first_number")
    )


def _outcome(when: str) -> Column:
    return f.coalesce(snake(_last(f"type_{when}", when)), f.lit(OPEN))


def _last(column: str, when: str) -> Column:
    """Return a column of the event that ended the saga; NULL while none has."""
    return f.max_by(column, f.when(f.col(f"final_{when}"), f.col(f"at_{when}")))


def _sums(figure: Figure) -> list[Column]:
    currency, then, now = figure.columns
    return [f.max(currency).alias(currency), f.sum(then).alias(then), f.sum(now).alias(now)]


def snake(name: Column) -> Column:
    """Return a type's name in snake case."""
    return f.lower(f.regexp_replace(name, "(?<=[a-z0-9])(?=[A-Z])", "_"))
