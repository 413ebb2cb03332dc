"""Commands that make tables, test them and ask them."""

from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from analytics.cli._common import AppOption, JsonOption, LogOption, app, app_named, log_url, place
from eventlib.command_line import Command
from eventlib.telemetry.jobs import job_span


@app.command("rebuild", cls=Command)
def rebuild_tables(  # noqa: PLR0913, PLR0917  one argument for each option
    out: Annotated[
        Any, typer.Option("--out", metavar="DIR", parser=place, help="The tables' directory, or s3a://BUCKET/DIR.")
    ],
    log: LogOption = None,
    full: Annotated[bool, typer.Option("--full", metavar="", help="Read the whole log, not only new records.")] = False,
    as_of: Annotated[
        str | None,
        typer.Option(
            "--as-of",
            metavar="TIME|FILE",
            help="As of a time (UTC), or of offsets: a file with {topic: {partition: first offset not read}}.",
            show_default=False,
        ),
    ] = None,
    follow: Annotated[
        bool, typer.Option("--follow", metavar="", help="Keep the tables current, until Ctrl-C or SIGTERM.")
    ] = False,
    every: Annotated[
        str, typer.Option("--every", metavar="DURATION", help="How often --follow looks for new records.")
    ] = "10s",
    keep: Annotated[
        int, typer.Option("--keep", metavar="N", min=1, help="How many versions stay for current readers.")
    ] = 2,
    choreography: AppOption = None,
    select: Annotated[
        str | None,
        typer.Option(
            "--select",
            metavar="TABLE,…",
            help="Make only these tables, and those that they are made of.",
            show_default=False,
        ),
    ] = None,
    enforce: Annotated[
        bool,
        typer.Option("--enforce", metavar="", help="Publish nothing when new rows break what their columns declare."),
    ] = False,
    table_format: Annotated[
        Literal["parquet", "iceberg", "delta"] | None,
        typer.Option(
            "--format",
            metavar="FORMAT",
            help="parquet, iceberg or delta. [dim]Default: as the tables there, or parquet[/dim]",
            show_default=False,
        ),
    ] = None,
    incomplete: Annotated[
        bool,
        typer.Option("--incomplete", metavar="", help="Accept that the log has dropped records; exit code 1 then."),
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Rebuild tables of events and sagas from the log, and the application's own: incrementally, or in full."""
    from analytics.audit.application import Application
    from analytics.commands.following import follow_command
    from analytics.commands.rebuild import rebuild_command
    from analytics.rebuilding import How

    if follow and as_of is not None:
        raise typer.BadParameter(
            "tables as of a time or offsets are not kept current: leave out --as-of or --follow", param_hint="--as-of"
        )
    selected = tuple(name.strip() for name in select.split(",")) if select else ()
    url, whose = log_url(log, choreography), Application(app_named(choreography))
    how = How(full, incomplete, keep, selected, enforce, table_format)
    if follow:
        lacking = follow_command(url, whose, out, every=every, how=how, as_json=as_json)
    else:
        with job_span("analytics rebuild", {"eventlib.log": url}):
            lacking = rebuild_command(url, whose, out, as_of=as_of, how=how, as_json=as_json)
    if lacking:
        raise typer.Exit(1)


@app.command("test", cls=Command)
def run_tests(
    out: Annotated[
        Any, typer.Option("--out", metavar="DIR", parser=place, help="The tables' directory, or s3a://BUCKET/DIR.")
    ],
    choreography: AppOption = None,
    as_json: JsonOption = False,
) -> None:
    """Test the rebuilt tables: keys, values and relationships that they declare; exit code 1 if one does not hold."""
    from analytics.audit.application import Application
    from analytics.commands.test import test_command

    if test_command(out, Application(app_named(choreography)), as_json=as_json):
        raise typer.Exit(1)


@app.command("sql", cls=Command)
def ask_sql(  # noqa: PLR0913, PLR0917  one argument for each option
    text: Annotated[
        str | None, typer.Argument(metavar="SELECT…", help="The query; without one, a prompt.", show_default=False)
    ] = None,
    out: Annotated[
        Any,
        typer.Option(
            "--out",
            metavar="DIR",
            parser=place,
            help="The tables' directory, or s3a://BUCKET/DIR.",
            show_default=False,
        ),
    ] = None,
    log: Annotated[
        str | None,
        typer.Option("--log", metavar="URL", help="A log whose events are tables, too.", show_default=False),
    ] = None,
    version: Annotated[
        int | None,
        typer.Option(
            "--version", metavar="N", min=1, help="Ask an older version, which --keep has left.", show_default=False
        ),
    ] = None,
    as_of_offsets: Annotated[
        Path | None,
        typer.Option(
            "--as-of-offsets",
            metavar="FILE",
            dir_okay=False,
            help="Ask the newest version that has read nothing from these offsets on: {topic: {partition: offset}}.",
            show_default=False,
        ),
    ] = None,
    choreography: AppOption = None,
    as_json: JsonOption = False,
) -> None:
    """Query the rebuilt tables (--out), and the events on a log by their names (--log), with SQL."""
    from analytics.audit.application import Application
    from analytics.commands.sql import Asked, sql_command

    if version is not None and as_of_offsets is not None:
        raise typer.BadParameter("name a version or offsets, not both", param_hint="--version")
    if out is None and (version is not None or as_of_offsets is not None):
        raise typer.BadParameter("name the tables that have versions: --out DIR", param_hint="--out")
    asked = Asked(out, log, Application(app_named(choreography)), version, as_of_offsets)
    sql_command(text, asked, as_json=as_json)


@app.command("connectors", cls=Command)
def print_connectors(
    table_format: Annotated[
        Literal["iceberg", "delta"] | None,
        typer.Option(
            "--format", metavar="FORMAT", help="Also the one for tables as iceberg or delta.", show_default=False
        ),
    ] = None,
    s3: Annotated[bool, typer.Option("--s3", metavar="", help="Also the one for what is on an object store.")] = False,
) -> None:
    """Download Spark's connectors for Kafka and Avro, once, and print their files in the form of spark-submit --jars."""
    from analytics.connectors import connectors
    from eventlib.devtools.kafka.java import find_java

    formats = [*([] if table_format is None else [table_format]), *(["s3a"] if s3 else [])]
    print(",".join(map(str, connectors(find_java("Spark"), fetch=True, formats=formats))))
