"""Audits a log: every rule, over every event."""

from pyspark.sql import DataFrame, SparkSession

from analytics.asking import from_anywhere
from analytics.audit.application import Application
from analytics.audit.bytes import damage_findings
from analytics.audit.decisions import decision_findings
from analytics.audit.finding import FINDING
from analytics.audit.headers import header_findings
from analytics.audit.invariants import InvariantCheck, invariant_findings, judged_deciders
from analytics.audit.newest import newest_records
from analytics.audit.routing import Routes
from analytics.audit.status import status_of


def audit(
    spark: SparkSession, url: str, application: Application | None = None, same_as: str | None = None
) -> DataFrame:
    """Return the violations on a log, one row of `FINDING` each; none when it is correct.

    `application` is the log's; by default the one that the nearest pyproject.toml names. With `same_as` it is compared,
    record by record, with another log. In-flight sagas are checked only by rules that hold at all times. A log on Kafka should
    be at rest, or be audited from its archive.
    Raises: WiringError when there is no such application; as `analytics.log` does.
    """
    whose, url = application or Application(), from_anywhere(url)
    damages = spark.createDataFrame(damage_findings(url, same_as), FINDING)
    return damages.unionAll(rule_findings(spark, url, whose)).unionAll(decision_findings(spark, url, whose))


def rule_findings(spark: SparkSession, url: str, whose: Application) -> DataFrame:
    """Return the findings of the rules about events, without deciding anything again."""
    routes = Routes(whose.choreography)
    with whose.running(url) as (opened, run):
        clocks = run(routes.shared_clocks(opened))
    newest = newest_records(spark, url, whose, judged_deciders(whose.choreography))
    check = InvariantCheck(whose, from_anywhere(url), status_of(newest, url, whose), clocks)
    return header_findings(spark, url, whose, clocks).unionAll(invariant_findings(spark, url, newest, check))
