"""The command that decides a log again by other rules."""

from pathlib import Path
from typing import Annotated

import typer

from analytics.cli._common import AppOption, JsonOption, LogOption, app, app_named, directory, log_url
from eventlib.command_line import Command
from eventlib.telemetry.jobs import job_span


@app.command("whatif", cls=Command)
def decide_again(  # noqa: PLR0913, PLR0917  one argument for each option
    out: Annotated[Path, typer.Option("--out", metavar="DIR", parser=directory, help="The tables' directory.")],
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

    url, today = log_url(log, choreography), Application(app_named(choreography))
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
