"""Starts Spark with what a command's job needs."""

from pyspark.sql import SparkSession

from analytics.asking import records_on
from analytics.connectors import fetch_for_formats, fetch_needed
from analytics.session import session
from analytics.stores import Place, TableFormat, format_of, needed, read_manifest, store_of


def session_for(  # noqa: PLR0913  named, all but two
    job: str,
    url: str | None,
    tables: Place | None = None,
    *,
    table_format: TableFormat | None = None,
    other: str | None = None,
    decoding: bool = True,
    is_short: bool = True,
) -> SparkSession:
    """Return a session for a job on a log, on tables in a place that may be empty, and on an `other` log.

    Connectors that are missing are downloaded; `decoding` is whether it reads events' fields. A job on little that `is_short`
    starts quickly. Raises: WiringError, LogUnavailable, before Spark starts; BrokerFailed.
    """
    there = None if tables is None else format_of(tables)
    rows = 0 if tables is None or there is None else sum(read_manifest(needed(tables)).rows.values())
    if url is not None:
        rows = max(rows, records_on(url))
        fetch_needed(url, decoding=decoding)
    formats = fetch_for_formats(table_format or there, store_of(tables, url, other))
    return session(job, formats=formats, records=rows if is_short else None)
