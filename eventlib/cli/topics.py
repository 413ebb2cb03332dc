"""`eventlib topics`: the topics on the log."""

from dataclasses import asdict

from eventlib.cli._common import output
from eventlib.cli._common.options import JsonOption, LogOptions, run_on_log
from eventlib.operations.topics import topic_rows


def topics(log_options: LogOptions, as_json: JsonOption = False) -> None:
    """List the topics: what they contain, and how many records.

    A compacted topic keeps only the newest record of each key; its number
    includes those already removed.

    [dim]Examples:[/dim]
      eventlib topics
      eventlib topics --json | jq 'select(.kind == "events").records'
    """
    rows = run_on_log(log_options, topic_rows)
    if as_json:
        output.print_json(asdict(row) for row in rows)
        return
    shown = output.table("topic", "records", "partitions", "holds", spare=["partitions"])
    previous = rows[0].kind == "events" if rows else True
    for row in rows:
        if (row.kind == "events") != previous:
            shown.add_section()
            previous = not previous
        events = ", ".join(row.events) or row.kind
        style = None if row.kind == "events" else "dim"
        shown.add_row(row.topic, row.records, row.partitions, events, style=style)
    output.terminal().print(shown)
