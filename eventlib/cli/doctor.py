"""`eventlib doctor`: finds problems of a log, and of the connection to it."""

import asyncio
from collections.abc import Sequence
from dataclasses import asdict
from typing import Annotated

import typer
from rich.text import Text

from eventlib.cli._common import output
from eventlib.cli._common.options import JsonOption, LogOptions, flag, option, refuse_missing
from eventlib.cli._common.progress import ProgressBar
from eventlib.cli._common.views import declared_views
from eventlib.config.settings import runtime_config
from eventlib.contracts.view_manifest import Viewing
from eventlib.errors import WiringError
from eventlib.model.choreography import Choreography
from eventlib.model.project import load_choreography
from eventlib.operations.doctor.deep import examine_deep
from eventlib.operations.doctor.examination import examine
from eventlib.operations.doctor.finding import Diagnosis
from eventlib.operations.doctor.sameness import compare

_STYLES = {"ok": "green", "warning": "yellow", "error": "red"}


def doctor(
    log_options: LogOptions,
    deep: Annotated[bool, flag("--deep", "Also verify every record, and the services' cursors on them.")] = False,
    same_as: Annotated[
        str | None,
        option("--same-as", "URL", "Also compare every record with another log: an archive, a backup, a copy."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Find problems of the log, and of this machine's connection to it.

    For Kafka: addresses, TLS and sign-in, advertised listeners, versions,
    clocks, ACLs, replicas, settings. For SQLite: the file, its journal and
    locks. For both: topics against their declarations, events from the
    future, tasks whose time is ahead, keys that grow with each request, free
    disk space. Nothing is changed; each finding names a remedy.

    --deep reads the whole log: checksums, gaps, each partition's digest and all
    tables of an SQLite file; what Kafka and archives verify in other ways; and
    whether a task's cursor is past the end of a topic, which has lost its tail.

    --same-as compares two logs, record by record, and lists what is changed,
    missing or added on one of them. Compacted topics are left out.

    Exit code 1 when there are errors.

    [dim]Examples:[/dim]
      eventlib doctor
      eventlib doctor --deep --log archive:var/archive --same-as sqlite:///var/shop.db
      eventlib doctor --deep --json | jq 'select(.offset != null) | [.topic, .offset, .key]'
      eventlib doctor --log kafka://broker:9092 --json | jq 'select(.verdict != "ok")'
    """
    if same_as is not None:
        refuse_missing(log_options.url)
        refuse_missing(same_as)
    choreography = load_choreography(log_options.app)
    found = asyncio.run(
        examine(log_options.url, choreography, runtime_config().state_dir, _views(log_options.url, choreography))
    )
    if deep:
        with ProgressBar("verifying", quiet=as_json) as bar:
            found += asyncio.run(examine_deep(log_options.url, choreography, bar.add))
    if same_as is not None:
        with ProgressBar("comparing", quiet=as_json) as bar:
            found += asyncio.run(compare(log_options.url, same_as, bar.add))
    if as_json:
        output.print_json(asdict(each) for each in found)
    else:
        _print(log_options.url, found)
    raise typer.Exit(1 if any(each.verdict == "error" for each in found) else 0)


def _views(url: str, choreography: Choreography) -> Sequence[Viewing]:
    """Return what live views need, where they can run: on Kafka, and with Faust installed."""
    try:
        return declared_views(choreography) if url.startswith("kafka:") else ()
    except WiringError:
        return ()


def _print(url: str, found: Sequence[Diagnosis]) -> None:
    shown = output.table("check", "", "finding, and what to do", whole=[""])
    for each in found:
        said = Text(output.printable(each.what))
        if each.remedy:
            said.append("\n→ " + output.printable(each.remedy), style="bold")
        shown.add_row(each.check, Text(each.verdict, style=_STYLES[each.verdict]), said)
    output.say(url)
    output.terminal().print(shown)
    counts = [
        output.counted(sum(each.verdict == verdict for each in found), verdict) for verdict in ("error", "warning")
    ]
    output.say()
    output.say(f"{counts[0]}, {counts[1]}.")
