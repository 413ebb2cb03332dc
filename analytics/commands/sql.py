"""`python -m analytics sql`."""

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

from prompt_toolkit import PromptSession
from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as f
from pyspark.sql.types import NumericType, TimestampType

from analytics.asking_tables import query
from analytics.audit.application import Application
from analytics.commands.rebuild import offsets_in, warn_of_dropped
from analytics.commands.starting import session_for
from analytics.stores import Place, VersionPlace, needed, read_manifest, version_at
from eventlib import command_line
from eventlib.errors import EventlibError, WiringError
from eventlib.index.columns import digits_of

_MOST_SHOWN = 1_000
_ISO = "yyyy-MM-dd'T'HH:mm:ss.SSSSSS'Z'"


@dataclass(frozen=True)
class Asked:
    """What a query is about: tables, as of a kept version or of offsets, and events on a log."""

    out: Place | None
    url: str | None
    application: Application
    version: int | None = None
    as_of_offsets: Path | None = None


def sql_command(text: str | None, asked: Asked, *, as_json: bool) -> None:
    """Answer one query, or many at a prompt."""
    if asked.out is None and asked.url is None:
        raise WiringError("name the tables, the log, or both: --out DIR, --log URL")
    version = None if asked.out is None else _version(asked, asked.out)
    if version is not None:
        warn_of_dropped(read_manifest(version))
    spark, at_prompt = session_for("sql", asked.url, asked.out), text is None and sys.stdin.isatty()
    number = int(version.name) if version is not None and _is_older(asked) else None
    for each in [text] if text is not None else _asked():
        try:
            rows = query(spark, each, asked.out, asked.url, asked.application, version=number)
            _answer(rows, as_json=as_json)
        except EventlibError as error:
            if not at_prompt:  # a script needs the exit code
                raise
            command_line.warn(str(error))


def _version(asked: Asked, out: Place) -> VersionPlace:
    """Return the version that is asked, and tell which it is if it is an older one."""
    ends = None if asked.as_of_offsets is None else offsets_in(asked.as_of_offsets, "--as-of-offsets")
    version = version_at(out, asked.version, ends)
    if _is_older(asked):
        command_line.warn(
            f"these are the tables of version {int(version.name)}, the current one is {int(needed(out).name)}"
        )
    return version


def _is_older(asked: Asked) -> bool:
    return asked.version is not None or asked.as_of_offsets is not None


def _asked() -> Iterator[str]:
    if not sys.stdin.isatty():
        yield from (text for text in sys.stdin.read().split(";") if text.strip())
        return
    prompt = PromptSession[str]("sql> ")
    while True:
        try:
            text = prompt.prompt().strip().rstrip(";")
        except KeyboardInterrupt:
            continue
        except EOFError:
            return
        if text in {"exit", "quit"}:
            return
        if text:
            yield text


def _answer(rows: DataFrame, *, as_json: bool) -> None:
    found = _with_times_as_text(rows)
    if as_json:
        command_line.print_json(_plain(row.asDict(recursive=True)) for row in found.toLocalIterator())
        return
    _print(found)


def _with_times_as_text(found: DataFrame) -> DataFrame:
    """Return rows with times as JSON text: Python has none after the year 9999, and Spark's bridge even fewer."""
    numbered = found.toDF(*map(str, range(len(found.columns))))  # a query may give two columns one name
    columns = [
        (
            f.regexp_replace(f.date_format(number, _ISO), "000Z$", "Z")
            if field.dataType == TimestampType()
            else f.col(number)
        ).alias(field.name)
        for number, field in zip(numbered.columns, found.schema.fields, strict=True)
    ]
    return numbered.select(*columns)


def _print(found: DataFrame) -> None:
    right = [field.name for field in found.schema.fields if isinstance(field.dataType, NumericType)]
    shown = command_line.table(*found.columns, right=right)
    rows: list[Row] = found.limit(_MOST_SHOWN + 1).collect()
    for row in rows[:_MOST_SHOWN]:
        shown.add_row(*("" if value is None else command_line.printable(str(_plain(value))) for value in row))
    command_line.terminal().print(shown)
    if len(rows) > _MOST_SHOWN:
        command_line.warn(f"only the first {_MOST_SHOWN:,} rows are shown: add LIMIT, or get all of them with --json")


def _plain(value: Any) -> Any:  # noqa: PLR0911  one answer for each kind
    """Return a value in a form for JSON."""
    match value:
        case dict():
            return {name: _plain(each) for name, each in value.items()}
        case list():
            return [_plain(each) for each in value]
        case datetime():
            return command_line.iso(value.astimezone(UTC))  # Spark returns local times
        case bytes() | bytearray():
            return value.hex()
        case Decimal():
            return digits_of(value)
        case None | bool() | int() | float() | str():
            return value
        case _:
            return str(value)
