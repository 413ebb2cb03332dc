"""`python -m analytics rebuild --follow`."""

import re
import signal
from collections import Counter
from datetime import UTC, datetime
from threading import Event

from analytics.audit.application import Application
from analytics.commands.rebuild import rebuilt_json, warn_of_dropped
from analytics.commands.starting import session_for
from analytics.rebuilding import Following, How, Increment, follow
from analytics.rebuilding.catalogue import catalogue_of
from analytics.stores import Place, current, read_manifest, refuse_unfit
from eventlib import command_line
from eventlib.errors import WiringError

_UNITS_S = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3_600.0}


def follow_command(url: str, application: Application, out: Place, *, every: str, how: How, as_json: bool) -> bool:
    """Keep tables current until SIGINT or SIGTERM, print each increment, and return whether they are incomplete."""
    catalogue_of(application, how.select)  # what is declared wrongly is told before Spark starts
    refuse_unfit(out, how.table_format)

    def told(increment: Increment) -> None:
        if as_json:
            ahead = {"behind": increment.behind}
            command_line.print_json([{"log": url, "out": str(out), **rebuilt_json(increment.done), **ahead}])
        else:
            print(line_of(increment), flush=True)

    following = Following(seconds_of(every), told, command_line.warn, Event())
    _end_on_signals(following.ended)
    spark = session_for("rebuild", url, out, table_format=how.table_format, is_short=False)
    follow(spark, url, out, following, how, application)
    version = current(out)
    if version is None:
        return False
    manifest = read_manifest(version)
    warn_of_dropped(manifest)
    return bool(manifest.dropped)


def _end_on_signals(ended: Event) -> None:
    """Let the first SIGINT or SIGTERM set `ended`, and restore the handlers for the second one."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    def end(*_: object) -> None:
        for number, handler in before.items():
            signal.signal(number, handler)
        ended.set()

    for number in before:
        signal.signal(number, end)


def seconds_of(text: str) -> float:
    """Read a duration such as 10s. Raises: WiringError."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)(ms|s|m|h)", text)
    if found is None or float(found[1]) == 0:
        raise WiringError(f"--every: {text!r} is not a duration: write 500ms, 10s or 5m")
    return float(found[1]) * _UNITS_S[found[2]]


def line_of(increment: Increment) -> str:
    """Return an increment in one line."""
    done = increment.done
    at = command_line.readable(datetime.now(UTC))
    behind = f"{command_line.counted(increment.behind, 'offset')} behind"
    if not done.read:
        return f"{at}  version {done.manifest.number}: unchanged, {behind}"
    read = Counter[str]()
    for (topic, _), span in done.read.items():
        read[topic] += len(span)
    topics = ", ".join(f"{topic} {offsets:,}" for topic, offsets in sorted(read.items()))
    lost = f", {done.undecodable:,} of them not decodable" if done.undecodable else ""
    events = command_line.counted(done.records, "event")
    return f"{at}  version {done.manifest.number}: {events}{lost} in {done.seconds:.1f} s, {behind}; offsets read: {topics}"
