"""`eventlib tail`: the records of topics, as a stream."""

import sys
from collections.abc import Callable
from contextlib import aclosing
from functools import partial
from typing import Annotated

import typer
from pydantic import BaseModel

from eventlib.cli._common import output
from eventlib.cli._common.options import JsonOption, PersonalLog, argument, flag, option, run_on_log
from eventlib.cli._common.record_json import record_line
from eventlib.errors import ContractError
from eventlib.eventlog import EventLog
from eventlib.model.record import key_text
from eventlib.queries.decoding import Reading, RecordReader, event_topics_there
from eventlib.queries.stream import start_of
from eventlib.queries.stream import tail as tail_of
from eventlib.values import iso_ms


def tail(
    log_options: PersonalLog,
    topics: Annotated[list[str] | None, argument("TOPIC", "Which topics; by default, all that hold events.")] = None,
    start: Annotated[
        str, option("--from", "WHERE", "earliest, latest, an offset, or a time (UTC) such as 2026-01-31T12:00:00Z.")
    ] = "earliest",
    follow: Annotated[bool, flag("--follow -f", "Wait for new records, until Ctrl-C.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Print the records of topics, merged by time.

    Without a topic, all events that the services exchange. Changelogs, journals
    and other internal topics are printed when they are named.

    [dim]Examples:[/dim]
      eventlib tail --follow --from latest
      eventlib tail orders payments --from 2026-01-31T12:00:00Z
      eventlib tail --json | jq -r .type | sort | uniq -c
    """
    topics = topics or []
    try:
        begin = start_of(start)
    except ContractError as error:
        raise typer.BadParameter(str(error), param_hint="--from") from error
    line = record_line if as_json else _readable_lines()

    async def printed(log: EventLog) -> None:
        reader = RecordReader(log)
        names = topics or [topic.name for topic in await event_topics_there(log)]
        async with aclosing(tail_of(log.port, names, begin, follow=follow)) as batches:
            async for records in batches:
                output.write_lines(map(line, await reader.read(records)))

    run_on_log(log_options, printed)


_WIDE = 110  # a narrower terminal has no room for dates and offsets


def _readable_lines() -> Callable[[Reading], bytes]:
    """Return a formatter of text lines: cut to a terminal's width, with its colours."""
    console = output.terminal()
    width = console.width if console.is_terminal else None
    return partial(_readable, width=width, colour=console.color_system is not None and not console.no_color)


def _readable(reading: Reading, width: int | None, *, colour: bool) -> bytes:
    record = reading.record
    at = iso_ms(record.timestamp_ms)
    if width is not None and width < _WIDE:
        start = output.printable(f"{at[11:23]} {record.topic:<14} {key_text(record):<10} ")
    else:
        location = f"{record.topic}/{record.partition}@{record.offset}"
        start = output.printable(f"{at[:10]} {at[11:23]}  {location:<20} {key_text(record):<10} ")
    name = f"{output.printable(record.type or '-'):<20}"
    rest = output.printable(_data_text(reading))
    if width is not None:
        rest = rest[: max(width - len(start) - len(name) - 1, 0)]
    if colour:
        name, rest = f"\x1b[1m{name}\x1b[0m", f"\x1b[{31 if reading.error else 2}m{rest}\x1b[0m"
    return f"{start}{name} {rest}".rstrip().encode(sys.stdout.encoding, "backslashreplace")


def _data_text(reading: Reading) -> str:
    if reading.error is not None:
        return f"! {reading.error}"
    value = reading.value
    if value is None:
        return "(its key is deleted)" if reading.record.value is None else ""
    if isinstance(value, BaseModel):
        key = key_text(reading.record)
        return output.facts_text({name: fact for name, fact in value if fact != key}, limit=sys.maxsize)
    return output.json_line(value).decode()
