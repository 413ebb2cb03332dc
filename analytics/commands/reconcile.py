"""`python -m analytics reconcile`."""

from collections.abc import Sequence

from analytics.asking import spans
from analytics.commands.showing import JobProgress, ranges_json
from analytics.commands.starting import session_for
from analytics.reconciling import Difference, Reconciled, ReconcileOptions, reconcile
from eventlib import command_line

_MOST_SHOWN = 50
_LONGEST = 60


def reconcile_command(url: str, wanted: ReconcileOptions, *, as_json: bool) -> bool:
    """Reconcile the live state with a log, print the result, and return whether something differs."""
    wanted.application.load()
    with JobProgress("starting Spark", shown=not as_json) as steps:
        spark = session_for("reconcile", url)
        read = spans(url)
        done = reconcile(spark, url, wanted, lambda what: steps(f"comparing {what}"))
    if as_json:
        summary = {"log": url, "read": ranges_json(read), "seconds": round(done.seconds, 3)}
        compared = [each._asdict() for each in done.compared]
        differences = [each._asdict() for each in done.differences]
        command_line.print_json([{**summary, "compared": compared, "differences": differences}])
    else:
        _print(url, done)
    return bool(done.differences)


def _print(url: str, done: Reconciled) -> None:
    counts = ["keys", "equal", "differing", "only on the log", "only live"]
    shown = command_line.table("live in", "of", *counts, right=counts, whole=["live in", "of"])
    for each in done.compared:
        shown.add_row(each.where, each.about, *(f"{number:,}" for number in each[2:]))
    command_line.terminal().print(shown)
    if done.differences:
        _print_differences(done.differences)
    keys = sum(each.keys for each in done.compared)
    result = command_line.counted(len(done.differences), "difference") if done.differences else "no difference"
    print(f"\nCompared {command_line.counted(keys, 'key')} with {url} in {done.seconds:.1f} s: {result}.")


def _print_differences(differences: Sequence[Difference]) -> None:
    shown = command_line.table("live in", "of", "key", "field", "live", "log", "at", whole=["live in", "of", "key"])
    for each in differences[:_MOST_SHOWN]:
        shown.add_row(*map(_text, each[:3]), each.field, *map(_text, each[4:]))
    command_line.terminal().print(shown)
    if len(differences) > _MOST_SHOWN:
        print(f"… and {len(differences) - _MOST_SHOWN:,} more: --json has them all")


def _text(value: str | None) -> str:
    if value is None:
        return "-"
    text = command_line.printable(value)
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"
