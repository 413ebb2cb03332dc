"""`python -m analytics audit`."""

import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from pyspark.sql import Row

from analytics.asking import refuse_missing, spans
from analytics.audit import FINDING, audit, rules
from analytics.audit.application import Application
from analytics.commands.showing import JobProgress, ranges_json, ranges_table
from analytics.commands.starting import session_for
from eventlib import command_line

_MOST_SHOWN = 50


def audit_command(
    url: str,
    app: str | None,
    out: Path | None,
    *,
    same_as: str | None = None,
    metrics: Path | None = None,
    as_json: bool,
) -> bool:
    """Audit a log, print the findings, and return whether an error is among them."""
    application, began = Application(app), time.monotonic()
    declared = rules(application)
    refuse_missing(url)
    if same_as is not None:
        refuse_missing(same_as)
    with JobProgress("starting Spark", shown=not as_json) as steps:
        read = {place: span for place, span in spans(url).items() if place[0] in application.topics}
        records = sum(map(len, read.values()))
        spark = session_for("audit", url, other=same_as, decoding=False)
        steps(f"auditing {command_line.counted(records, 'record')}")
        found = audit(spark, url, application, same_as).orderBy("severity", "rule", "order", "about").collect()
    if out is not None:
        spark.createDataFrame(found, FINDING).coalesce(1).write.mode("overwrite").parquet(str(out / "findings"))
    counts = Counter(row["rule"] for row in found)
    if metrics is not None:
        from eventlib.telemetry.jobs import write_textfile

        write_textfile(metrics, "eventlib.laws.broken", {(rule.name,): counts[rule.name] for rule in declared})
    seconds = time.monotonic() - began
    if as_json:
        checked = [
            {"rule": r.name, "severity": r.severity, "says": r.sentence, "found": counts[r.name]} for r in declared
        ]
        summary = {"log": url, "rules": checked, "read": ranges_json(read), "seconds": round(seconds, 3)}
        command_line.print_json([{**summary, "findings": [row.asDict(recursive=True) for row in found]}])
    else:
        command_line.terminal().print(ranges_table(read))
        _print(found, len(declared), records, seconds)
        if out is not None:
            print(f"The findings are in {out / 'findings'}.")
    return any(row["severity"] == "error" for row in found)


def _print(found: Sequence[Row], declared: int, events: int, seconds: float) -> None:
    if found:
        shown = command_line.table("severity", "rule", "order", "what", "evidence", whole=["severity", "rule", "order"])
        for row in found[:_MOST_SHOWN]:
            evidence = " ".join(command_line.short_id(each) for each in row["evidence"][:3])
            shown.add_row(row["severity"], row["rule"], row["order"], f"{row['about']}: {row['sentence']}", evidence)
        command_line.terminal().print(shown)
    if len(found) > _MOST_SHOWN:
        print(f"… and {len(found) - _MOST_SHOWN} more: --json or --out DIR has them all")
    result = command_line.counted(len(found), "finding") if found else "nothing is wrong"
    print(f"\nAudited {command_line.counted(events, 'record')} by {declared} rules in {seconds:.1f} s: {result}.")
