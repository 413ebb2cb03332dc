"""The same log in other places."""

from dataclasses import replace
from pathlib import Path

from pyspark.sql import SparkSession

import analytics
from analytics.audit.application import Application
from analytics.cli import run
from analytics.rebuilding import How, Rebuilt, rebuild
from analytics.rebuilding.building import Progress
from analytics.rebuilding.rebuild import NEW, AsOf
from eventlib.ground.object_store import Place
from services.analytics import TABLES
from tests.commands import said

REPAIRS = Application("tests.analytics.repairs:repairs")
"""The application of `repair_log`."""

ROOT = Path(__file__).resolve().parents[2]


def archived(url: str, place: Place) -> str:
    """Archive a log, and return the archive's URL."""
    said("archive", "--log", url, "--to", str(place), by=run)
    return f"archive:{place}"


def moved_to(url: str, source: str) -> str:
    """Copy a log to another URL, and return that."""
    said("copy", "--from", source, "--to", url, "--source-stays")
    return url


def thirds(url: str, n: int) -> dict[tuple[str, int], int]:
    """Offsets that cut every partition somewhere else, so that causes fall behind what they led to."""
    ends = analytics.spans(url)
    return {p: span.stop * (n * 3 + sum(map(ord, p[0])) % 3) // 12 for p, span in ends.items()}


def rebuild_shop(
    spark: SparkSession,
    url: str,
    place: Path,
    *,
    as_of: AsOf | None = None,
    how: How = NEW,
    progress: Progress = lambda *_: None,
) -> Rebuilt:
    """Rebuild the shop's own tables, and none of the generic ones that they are not made of."""
    return rebuild(spark, url, place, as_of=as_of, how=replace(how, select=TABLES), progress=progress)
