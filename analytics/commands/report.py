"""`python -m analytics report`."""

import webbrowser
from pathlib import Path
from tempfile import TemporaryDirectory

from analytics.audit.application import Application
from analytics.commands.showing import JobProgress, ranges_json, ranges_table
from analytics.commands.starting import session_for
from analytics.reporting.console_pages import console_named
from analytics.reporting.making import Reported, make_report
from analytics.stores import Place
from eventlib import command_line


def report_command(  # noqa: PLR0913  what a person may say of a report
    url: str,
    whose: Application,
    tables: Place | None,
    out: Path,
    progress: JobProgress,
    *,
    console: str | None,
    audited: bool,
    opened: bool,
    as_json: bool,
) -> None:
    """Write the report of a log, print what was read and written, and open it if requested."""
    linked = console_named(console) if console else ""
    whose.load()
    with progress, TemporaryDirectory(prefix="report-") as scratch:
        progress("starting Spark")
        spark, place = session_for("report", url, tables), tables or Path(scratch)
        out.parent.mkdir(parents=True, exist_ok=True)
        done = make_report(spark, url, place, audited=audited, application=whose, progress=progress, console=linked)
    unfinished = out.with_name(f".{out.name}.unfinished")
    unfinished.write_text(done.html, encoding="utf-8")
    unfinished.replace(out)
    _tell(done, out, as_json=as_json)
    if opened:
        webbrowser.open(out.absolute().as_uri())


def _tell(done: Reported, out: Path, *, as_json: bool) -> None:
    made = done.made
    size = len(done.html.encode())
    if as_json:
        read = {"log": made.log, "read": ranges_json(made.read), "seconds": round(made.seconds, 3)}
        command_line.print_json([{**read, "out": str(out), "bytes": size, "findings": done.findings}])
        return
    command_line.terminal().print(ranges_table(made.read))
    records = command_line.counted(sum(map(len, made.read.values())), "record")
    audit = "" if done.findings is None else f", {command_line.counted(done.findings, 'finding')} of the audit"
    print(f"\nReported on {records} in {made.seconds:.1f} s{audit}: {out}, {size / 1e3:,.0f} kB.")
