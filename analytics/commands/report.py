"""`python -m analytics report`."""

import webbrowser
from pathlib import Path
from tempfile import TemporaryDirectory

from analytics.asking import refuse_unreadable
from analytics.audit.application import Application
from analytics.commands.showing import bars, ranges_json, ranges_table
from analytics.connectors import fetch_for_formats, fetch_needed
from analytics.reporting.making import Reported, make_report
from analytics.session import session
from analytics.stores import Place, format_of, store_of
from eventlib import command_line


def report_command(  # noqa: PLR0913  what a person may say of a report
    url: str, whose: Application, tables: Place | None, out: Path, *, audited: bool, opened: bool, as_json: bool
) -> None:
    """Write the report of a log, print what was read and written, and open it if requested."""
    whose.load()
    refuse_unreadable(url)
    fetch_needed(url)
    out.parent.mkdir(parents=True, exist_ok=True)
    with bars(shown=not as_json) as shown, TemporaryDirectory(prefix="report-") as scratch:
        task = shown.add_task("starting Spark", total=None)

        def progress(what: str, done: int, total: int) -> None:
            shown.update(task, description=f"reporting: {what}", completed=done, total=total)

        spark = session(
            "report", formats=fetch_for_formats(None if tables is None else format_of(tables), store_of(tables, url))
        )
        place = tables or Path(scratch)
        done = make_report(spark, url, place, audited=audited, application=whose, progress=progress)
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
