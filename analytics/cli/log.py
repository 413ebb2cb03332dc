"""Commands about a whole log: archive it, audit it, report on it, and compare it with live state."""

import asyncio
from pathlib import Path
from typing import Annotated, Any

import typer

from analytics.cli._common import AppOption, JsonOption, LogOption, app, app_named, directory, log_url, place
from eventlib.command_line import Command
from eventlib.telemetry.jobs import job_span


@app.command("archive", cls=Command)
def archive_log(
    to: Annotated[
        Any,
        typer.Option(
            "--to",
            metavar="DIR",
            parser=place,
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

    url = log_url(log, None)
    if release:
        asyncio.run(release_command(url))
    elif to is None:
        raise typer.BadParameter("name the archive's directory: --to DIR", param_hint="--to")
    elif archive_command(url, to, as_json=as_json):
        raise typer.Exit(1)


@app.command("audit", cls=Command)
def audit_log(
    log: LogOption = None,
    choreography: AppOption = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="DIR", parser=directory, help="Also write DIR/findings/.", show_default=False),
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

    url = log_url(log, choreography)
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
            parser=place,
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
    console: Annotated[
        str | None,
        typer.Option(
            "--console",
            metavar="URL",
            help="The console that sagas, outcomes and parked causes link to. [dim]Default: no links[/dim]",
            show_default=False,
        ),
    ] = None,
    choreography: AppOption = None,
    as_json: JsonOption = False,
) -> None:
    """Report on a log: flow, outcomes, times, what waits and the audit, and the application's own parts, as one HTML page."""
    from analytics.commands.showing import JobProgress

    url = log_url(log, choreography)
    steps = JobProgress(f"reading {url}", shown=not as_json)  # what is imported next takes seconds on a busy machine
    from analytics.audit.application import Application
    from analytics.commands.report import report_command

    whose, is_audited = Application(app_named(choreography)), not without_audit
    with job_span("analytics report", {"eventlib.log": url}):
        report_command(
            url, whose, tables, out, steps, console=console, audited=is_audited, opened=opened, as_json=as_json
        )


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

    url, wanted = log_url(log, choreography), ReconcileOptions(api, ledger, Application(app_named(choreography)))
    with job_span("analytics reconcile", {"eventlib.log": url}) as told:
        differs = reconcile_command(url, wanted, as_json=as_json)
        told["eventlib.errors"] = int(differs)
    if differs:
        raise typer.Exit(1)
