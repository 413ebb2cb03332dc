"""The analytics' commands: `python -m analytics COMMAND`."""

import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from eventlib.command_line import Command, Group, lacking, run_command
from eventlib.config.settings import eventlib_settings
from eventlib.errors import EventlibError, WiringError
from eventlib.telemetry.jobs import job_span


class SparkGroup(Group):
    """Commands that work with a JVM, which may end before they do."""

    def invoke(self, ctx: Any) -> Any:
        """Run a command. Raises: JvmEnded; WiringError when an extra's package is missing."""
        try:
            return super().invoke(ctx)
        except (EventlibError, typer.TyperException):
            raise
        except ModuleNotFoundError as error:
            lacks = lacking(error, "archive" if ctx.invoked_subcommand == "archive" else "analytics")
            if lacks is None:
                raise
            raise WiringError(lacks) from error
        except Exception:
            if "pyspark" in sys.modules:
                from analytics.session import refuse_lost_jvm

                refuse_lost_jvm()
            raise


app = typer.Typer(
    name="analytics",
    cls=SparkGroup,
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["--help", "-h"]},
)

LogOption = Annotated[
    str | None,
    typer.Option(
        "--log",
        metavar="URL",
        help="sqlite:///PATH, kafka://HOST:PORT, archive:DIR or archive:s3a://BUCKET/DIR. [dim]Default: $EVENTLIB_LOG[/dim]",
        show_default=False,
    ),
]
AppOption = Annotated[
    str | None,
    typer.Option("--app", metavar="MODULE:NAME", help="The log's application.", show_default=False),
]
JsonOption = Annotated[bool, typer.Option("--json", metavar="", help="Print JSON, for scripts.")]


@app.callback()
def analytics() -> None:
    """Replay the whole log: archive it, rebuild tables, audit it, report on it, and compare it with live state."""


def log_url(given: str | None) -> str:
    """Return the log that a command uses. Raises: SettingsError."""
    return eventlib_settings(log=given).log


def app_named(given: str | None) -> str | None:
    """Return the application that a command uses; None: as in pyproject.toml. Raises: SettingsError."""
    return eventlib_settings(app=given).app


def _place(text: str) -> Any:
    """Read where tables or an archive are. Raises: WiringError."""
    from analytics.place import place_named

    place = place_named(text)
    if isinstance(place, Path) and place.is_file():
        raise typer.BadParameter(f"Directory {text!r} is a file.")
    return place


def _directory(text: str) -> Path:
    """Read a directory. Raises: WiringError."""
    place = _place(text)
    if not isinstance(place, Path):
        raise typer.BadParameter(f"only tables and archives can be in a bucket: name a directory instead of {text}")
    return place


@app.command("archive", cls=Command)
def archive_log(
    to: Annotated[
        Any,
        typer.Option(
            "--to",
            metavar="DIR",
            parser=_place,
            help="The archive's directory, or s3a://BUCKET/DIR.",
            show_default=False,
        ),
    ] = None,
    log: LogOption = None,
    release: Annotated[
        bool,
        typer.Option(
            "--release", metavar="", help="Let the log's retention drop unarchived records again; archive nothing."
        ),
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Archive new records of a log, as Parquet; from then on, retention drops only archived records."""
    from analytics.commands.archive import archive_command, release_command

    url = log_url(log)
    if release:
        asyncio.run(release_command(url))
    elif to is None:
        raise typer.BadParameter("name the archive's directory: --to DIR", param_hint="--to")
    elif archive_command(url, to, as_json=as_json):
        raise typer.Exit(1)


@app.command("rebuild", cls=Command)
def rebuild_tables(  # noqa: PLR0913, PLR0917  one argument for each option
    out: Annotated[
        Any, typer.Option("--out", metavar="DIR", parser=_place, help="The tables' directory, or s3a://BUCKET/DIR.")
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
    url, whose = log_url(log), Application(app_named(choreography))
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
        Any, typer.Option("--out", metavar="DIR", parser=_place, help="The tables' directory, or s3a://BUCKET/DIR.")
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
            parser=_place,
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


@app.command("audit", cls=Command)
def audit_log(
    log: LogOption = None,
    choreography: AppOption = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="DIR", parser=_directory, help="Also write DIR/findings/.", show_default=False),
    ] = None,
    metrics: Annotated[
        Path | None,
        typer.Option(
            "--metrics",
            metavar="FILE",
            dir_okay=False,
            help="Write the number of violations of each rule, for Prometheus's textfile collector.",
            show_default=False,
        ),
    ] = None,
    same_as: Annotated[
        str | None,
        typer.Option(
            "--same-as",
            metavar="URL",
            help="Compare it, record by record, with another log: the one that it is an archive, a backup or a copy of.",
            show_default=False,
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Audit a log: check every rule over every event, and name the orders that violate one; exit code 1 for an error."""
    from analytics.commands.audit import audit_command

    url = log_url(log)
    with job_span("analytics audit", {"eventlib.log": url}) as told:
        wrong = audit_command(url, app_named(choreography), out, same_as=same_as, metrics=metrics, as_json=as_json)
        told["eventlib.errors"] = int(wrong)
    if wrong:
        raise typer.Exit(1)


@app.command("report", cls=Command)
def report_log(  # noqa: PLR0913, PLR0917  one argument for each option
    log: LogOption = None,
    tables: Annotated[
        Any,
        typer.Option(
            "--tables",
            metavar="DIR",
            parser=_place,
            help="Rebuilt tables to continue from, so that only new records are read.",
            show_default=False,
        ),
    ] = None,
    out: Annotated[Path, typer.Option("--out", metavar="FILE", dir_okay=False, help="The HTML page.")] = Path(
        "report.html"
    ),
    without_audit: Annotated[
        bool, typer.Option("--no-audit", metavar="", help="Leave the audit out, which takes longest.")
    ] = False,
    opened: Annotated[bool, typer.Option("--open", metavar="", help="Open it in the browser.")] = False,
    choreography: AppOption = None,
    as_json: JsonOption = False,
) -> None:
    """Report on a log: flow, outcomes, times, what waits and the audit, and the application's own parts, as one HTML page."""
    from analytics.audit.application import Application
    from analytics.commands.report import report_command

    url, whose = log_url(log), Application(app_named(choreography))
    with job_span("analytics report", {"eventlib.log": url}):
        report_command(url, whose, tables, out, audited=not without_audit, opened=opened, as_json=as_json)


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


@app.command("reconcile", cls=Command)
def reconcile_states(
    log: LogOption = None,
    api: Annotated[
        str | None,
        typer.Option(
            "--api", metavar="URL", help="A running API of the application, from which all is read.", show_default=False
        ),
    ] = None,
    ledger: Annotated[
        Path | None,
        typer.Option(
            "--ledger",
            metavar="FILE",
            exists=True,
            dir_okay=False,
            help="Books of the outside world: the shop's simulated gateway has shop.db.outside.db.",
            show_default=False,
        ),
    ] = None,
    choreography: AppOption = None,
    as_json: JsonOption = False,
) -> None:
    """Compare stores, changelogs and the API with the log, key by key; exit code 1 if something differs."""
    from analytics.audit.application import Application
    from analytics.commands.reconcile import reconcile_command
    from analytics.reconciling import ReconcileOptions

    url, wanted = log_url(log), ReconcileOptions(api, ledger, Application(app_named(choreography)))
    with job_span("analytics reconcile", {"eventlib.log": url}) as told:
        differs = reconcile_command(url, wanted, as_json=as_json)
        told["eventlib.errors"] = int(differs)
    if differs:
        raise typer.Exit(1)


@app.command("whatif", cls=Command)
def decide_again(  # noqa: PLR0913, PLR0917  one argument for each option
    out: Annotated[Path, typer.Option("--out", metavar="DIR", parser=_directory, help="The tables' directory.")],
    log: LogOption = None,
    choreography: AppOption = None,
    tomorrow: Annotated[
        str | None,
        typer.Option("--with", metavar="MODULE:NAME", help="The application that decides now.", show_default="--app"),
    ] = None,
    since: Annotated[
        str | None,
        typer.Option("--since", metavar="TIME", help="It decides from then on (UTC).", show_default=False),
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(
            "--model",
            metavar="MODULE:NAME",
            help="A function that returns the external systems, for questions that were never asked.",
            show_default=False,
        ),
    ] = None,
    change: Annotated[
        str | None,
        typer.Option(
            "--change",
            metavar="MODULE:NAME",
            help="A function from each external event to those in its place.",
            show_default=False,
        ),
    ] = None,
    orders: Annotated[
        Path | None,
        typer.Option(
            "--orders",
            metavar="FILE",
            exists=True,
            dir_okay=False,
            help="Requests by line: a key to take it, or JSON with its type to put it in the recorded one's place.",
            show_default=False,
        ),
    ] = None,
    sums: Annotated[
        list[str] | None,
        typer.Option(
            "--sum", metavar="NAME=TYPE.FIELD[:CURRENCY]", help="What to add up for each saga.", show_default=False
        ),
    ] = None,
    seed: Annotated[int, typer.Option("--seed", metavar="N", help="For the model's choices.")] = 0,
    report: Annotated[
        Path | None,
        typer.Option("--report", metavar="FILE", dir_okay=False, help="Also write an HTML page.", show_default=False),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Decide the whole log again by other rules, and tell which sagas end otherwise, and why."""
    from analytics.audit.application import Application
    from analytics.commands.whatif import whatif_command
    from analytics.whatif import Figure, Hypothesis
    from analytics.whatif.hypothesis import Orders
    from eventlib.values import time_of, to_ms

    url, today = log_url(log), Application(app_named(choreography))
    hypothesis = Hypothesis(
        today,
        today if tomorrow is None else Application(tomorrow),
        since_ms=0 if since is None else to_ms(time_of(since)),
        model=model,
        change=change,
        orders=Orders() if orders is None else Orders.read(orders, today),
        figures=tuple(map(Figure.parsed, sums or ())),
        seed=seed,
    )
    with job_span("analytics whatif", {"eventlib.log": url}):
        whatif_command(url, hypothesis, out, report, as_json=as_json)


def run(arguments: Sequence[str]) -> int:
    """Run one command, and return its exit code."""
    return run_command(app, "python -m analytics", list(arguments))
