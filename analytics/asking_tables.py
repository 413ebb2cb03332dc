"""SQL over the rebuilt tables and a log's typed events: each is a view by its name, created when a query names it."""

import re

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from analytics.audit.application import Application
from analytics.events import events
from analytics.stores import Place, tables
from eventlib.errors import WiringError
from eventlib.model.event import contract_of


def query(
    spark: SparkSession,
    text: str,
    place: Place | None,
    url: str | None,
    application: Application | None = None,
    *,
    version: int | None = None,
) -> DataFrame:
    """Return a query's result, over the tables in `place` and the events of an application on the log at `url`.

    `version` is the number of the tables' version that is asked; None: the current one.

    Raises: WiringError with Spark's own message for an invalid query; LogUnavailable without tables or log.
    """
    named = {word.lower() for word in re.findall(r"\w+", text)}
    if place is not None:
        for table, rows in tables(spark, place, version=version).items():
            if table in named:
                rows.createOrReplaceTempView(table)
    if url is not None:
        for event in (application or Application()).choreography.events:
            name = contract_of(event).type
            if name.lower() in named:
                events(spark, url, event, strict=False).createOrReplaceTempView(name)
    try:
        return spark.sql(text)
    except PySparkException as error:
        raise WiringError(str(error).split("\n", maxsplit=1)[0]) from error
