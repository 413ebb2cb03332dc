"""The commands of `eventlib live`: their names, their options and their help."""

from typing import Annotated

import typer

from eventlib.cli.options import AppOption, JsonOption, LogOption, LogOptions, MetricsOption
from eventlib.cli.typed import Command, Group

live = typer.Typer(cls=Group)

_Services = Annotated[
    list[str] | None,
    typer.Option("--service", "-s", metavar="NAME", help="Only of this service; may be repeated.", show_default=False),
]


@live.callback(invoke_without_command=True)
def run(
    context: typer.Context,
    service: _Services = None,
    http: Annotated[
        str | None,
        typer.Option(
            "--http",
            metavar="PORT",
            help="Answer questions: a port of this machine, or HOST:PORT; each further service is at the next port.",
            show_default=False,
        ),
    ] = None,
    metrics_port: MetricsOption = None,
    app: AppOption = None,
    log: LogOption = None,
) -> None:
    """Run the live views of services (all by default) until they are stopped.

    Tables and streams that people watch while they flow, computed by Faust
    from a log on Kafka. They decide nothing, and can be computed anew at any
    time: `eventlib live reset`. Workers on several machines share the work;
    any of them answers for all. `faust -A services.order.views worker` is the
    same for one service.

    [dim]Examples:[/dim]
      eventlib live --http 6066
      eventlib live --http 6066 --metrics-port 9464
      eventlib live --service order --http 0.0.0.0:6066 --log kafka://broker:9092
      curl 'localhost:6066/views/outcomes?key=France'
    """
    if context.invoked_subcommand is not None:
        if service or http or metrics_port:
            hint = "--service / --http / --metrics-port"
            raise typer.BadParameter(f"stands after `{context.invoked_subcommand}`", param_hint=hint)
        return
    from eventlib.cli.live import run_live

    run_live(LogOptions.of(context, app, log), service or [], http, metrics_port)


@live.command(cls=Command)
def reset(
    context: typer.Context,
    service: _Services = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", metavar="", help="Do not ask.")] = False,
    as_json: JsonOption = False,
    app: AppOption = None,
    log: LogOption = None,
) -> None:
    """Compute live views anew: forget their positions, tables and changelogs.

    Stop their workers first. The next start reads the log from its beginning.
    Alerts and derived topics stay; what is told again has the ids that it had.

    [dim]Examples:[/dim]
      eventlib live reset
      eventlib live reset --service stock --yes
    """
    from eventlib.cli.live import reset_live

    reset_live(LogOptions.of(context, app, log), service or [], yes=yes, as_json=as_json)
