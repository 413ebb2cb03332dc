"""Every command: its name, its options and its help. What a command does is imported when it is called."""

from typing import Annotated

import typer

from eventlib.cli.acting_commands import rerun, reset
from eventlib.cli.backup_commands import backup, restore
from eventlib.cli.broker_commands import broker
from eventlib.cli.live_commands import live
from eventlib.cli.operating_commands import admin, config, copy, doctor, repair, status
from eventlib.cli.options import AppOption, AtTime, JsonOption, LogOption, LogOptions, MetricsOption, Shared
from eventlib.cli.own_commands import new, publish
from eventlib.cli.parked_commands import parked
from eventlib.cli.past_commands import history
from eventlib.cli.replay_commands import replay
from eventlib.cli.schemas_commands import schemas
from eventlib.cli.simulating_commands import simulate
from eventlib.cli.typed import Command, CountingCommand, Group
from eventlib.cli.wiring_commands import check, export, graph

app = typer.Typer(
    name="eventlib",
    cls=Group,
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["--help", "-h"]},
    add_completion=False,
)
_LOOK = "Look at the log"
_WIRING = "Look at the wiring"
_COURSE = "Change the course of a service"


def _print_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        print(f"eventlib {version('eventlib-sagas')}")
        raise typer.Exit


VersionOption = Annotated[
    bool, typer.Option("--version", metavar="", is_eager=True, callback=_print_version, help="Print the version.")
]


@app.callback()
def eventlib(
    context: typer.Context,
    app: AppOption = None,
    log: LogOption = None,
    version: VersionOption = False,  # noqa: ARG001  its callback has acted already
) -> None:
    """Run event-driven services, and look at what they did.

    --app and --log stand before or after the command's name.

    [dim]Begin with:[/dim]
      eventlib check
      eventlib run
      eventlib saga KEY
    """
    context.obj = Shared(app, log)


@app.command(cls=Command, rich_help_panel="Run")
def run(  # noqa: PLR0913, PLR0917  one argument for each option
    context: typer.Context,
    service: Annotated[
        list[str] | None,
        typer.Option("--service", "-s", metavar="NAME", help="Only this service; may be repeated.", show_default=False),
    ] = None,
    no_services: Annotated[
        bool,
        typer.Option("--no-services", metavar="", help="No service: only HTTP, beside services that run elsewhere."),
    ] = False,
    http: Annotated[
        str | None,
        typer.Option(
            "--http", metavar="PORT", help="Serve HTTP, too: a port of this machine, or HOST:PORT.", show_default=False
        ),
    ] = None,
    metrics_port: MetricsOption = None,
    workers: Annotated[
        int | None,
        typer.Option(
            "--workers",
            metavar="N",
            min=1,
            max=1_000,
            help="In so many processes, started again when they die.",
            show_default=False,
        ),
    ] = None,
    app: AppOption = None,
    log: LogOption = None,
) -> None:
    """Run the services until they are stopped (Ctrl-C or SIGTERM).

    What is at hand is finished and committed first; a second Ctrl-C does not
    wait for that. Whatever stops them, the next start goes on from the last
    commit. Processes may share a log: each partition of a service has one
    owner, and HTTP answers for all of them.

    With --workers, this process supervises: it starts again what dies, after
    pauses that grow, prints what all of them say, and one signal stops them
    all. On Kafka they share the work; a log that is one file gives it to one
    of them, and the next takes over from it.

    Traces go where OTEL_TRACES_EXPORTER says (otlp or console), for the share
    of the sagas that OTEL_TRACES_SAMPLER_ARG says (0.02); EVENTLIB_LOG_FORMAT=
    json logs for machines.

    [dim]Examples:[/dim]
      eventlib run
      eventlib run --http 8000
      eventlib run --metrics-port 9464
      OTEL_TRACES_EXPORTER=otlp eventlib run
      eventlib run --http 8001 --no-services
      eventlib run --service stock --service payment
      eventlib run --service stock --workers 4 --log kafka://broker:9092/
      eventlib run --log sqlite:///var/other.db
    """
    from eventlib.cli.running import run_services

    place = LogOptions.of(context, app, log)
    run_services(place, service or [], http, no_services=no_services, workers=workers, metrics=metrics_port)


app.add_typer(live, name="live", rich_help_panel="Run")
app.command(cls=Command, rich_help_panel="Run")(publish)
app.command(cls=Command, rich_help_panel="Run")(admin)
app.command(cls=Command, rich_help_panel="Run")(doctor)
app.command(cls=Command, rich_help_panel="Run")(repair)
app.command(cls=Command, rich_help_panel="Run")(config)
app.command(cls=Command, rich_help_panel="Run")(backup)
app.command(cls=Command, rich_help_panel="Run")(restore)
app.command(cls=Command, rich_help_panel="Run")(copy)
app.add_typer(broker, name="broker", rich_help_panel="Run")


app.command(cls=Command, rich_help_panel=_LOOK)(status)


@app.command(cls=Command, rich_help_panel=_LOOK)
def topics(context: typer.Context, as_json: JsonOption = False, app: AppOption = None, log: LogOption = None) -> None:
    """List the topics: what they hold, and how much.

    A compacted topic keeps only the newest record of each key; its number
    counts those already dropped as well.

    [dim]Examples:[/dim]
      eventlib topics
      eventlib topics --json | jq 'select(.kind == "events").records'
    """
    from eventlib.cli.topics import print_topics

    print_topics(LogOptions.of(context, app, log), as_json=as_json)


@app.command(cls=Command, rich_help_panel=_LOOK)
def tail(  # noqa: PLR0913, PLR0917  one argument for each option
    context: typer.Context,
    topics: Annotated[
        list[str] | None,
        typer.Argument(metavar="TOPIC", help="Which topics; without any, all that hold events.", show_default=False),
    ] = None,
    start: Annotated[
        str,
        typer.Option(
            "--from",
            metavar="WHERE",
            help="earliest, latest, an offset, or a time (UTC) such as 2026-01-31T12:00:00Z.",
        ),
    ] = "earliest",
    follow: Annotated[
        bool, typer.Option("--follow", "-f", metavar="", help="Wait for what comes next, until Ctrl-C.")
    ] = False,
    as_json: JsonOption = False,
    app: AppOption = None,
    log: LogOption = None,
) -> None:
    """Print the records of topics, merged by time.

    Without a topic, everything that the services tell each other. Changelogs,
    journals and other topics of their own are printed when they are named.

    [dim]Examples:[/dim]
      eventlib tail --follow --from latest
      eventlib tail orders payments --from 2026-01-31T12:00:00Z
      eventlib tail --json | jq -r .type | sort | uniq -c
    """
    from eventlib.cli.tail import print_tail

    print_tail(LogOptions.of(context, app, log), topics or [], start, follow=follow, as_json=as_json)


@app.command(cls=Command, rich_help_panel=_LOOK)
def saga(  # noqa: PLR0913, PLR0917  one argument for each option
    context: typer.Context,
    key: Annotated[str, typer.Argument(metavar="KEY", help="An order's id, or any other event's key.")],
    tree: Annotated[bool, typer.Option("--tree", metavar="", help="Only the tree: what caused what.")] = False,
    unfold: Annotated[
        bool, typer.Option("--all", "-a", metavar="", help="A line for each event, however many are of one kind.")
    ] = False,
    at: AtTime = None,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", metavar="", help="Print each event as it comes, until the saga has ended.")
    ] = False,
    as_json: JsonOption = False,
    app: AppOption = None,
    log: LogOption = None,
) -> None:
    """Show one saga over all services, and what caused what.

    Marks: ✗ something was refused or called off, ↩ compensation (what follows
    from that), ■ the end.

    [dim]Examples:[/dim]
      eventlib saga 536365
      eventlib saga 536365 --tree --all
      eventlib saga 536365 --at 2026-01-31T12:00:00.250Z
      eventlib saga 536365 --follow
      eventlib saga 536365 --json | jq -r '.events[] | [.after_ms, .type] | @tsv'
    """
    from eventlib.cli.following import print_following
    from eventlib.cli.saga import print_saga

    if follow and (at is not None or tree):
        raise typer.BadParameter(
            "shows what comes, so it goes neither with --at nor with --tree", param_hint="--follow"
        )
    if follow:
        print_following(LogOptions.of(context, app, log), key, as_json=as_json)
    else:
        print_saga(LogOptions.of(context, app, log), key, at, only_tree=tree, fold=not unfold, as_json=as_json)


@app.command(cls=Command, rich_help_panel=_LOOK)
def state(  # noqa: PLR0913, PLR0917  one argument for each option
    context: typer.Context,
    decider: Annotated[str, typer.Argument(metavar="DECIDER", help="A decider's name; `eventlib graph` shows them.")],
    key: Annotated[str, typer.Argument(metavar="KEY", help="An order's id, a product's SKU: what the decider has.")],
    at: Annotated[
        str | None,
        typer.Option(
            "--at",
            metavar="TIME|EVENT_ID",
            help="As it was at a time (UTC), or after an event.",
            show_default=False,
        ),
    ] = None,
    as_json: JsonOption = False,
    app: AppOption = None,
    log: LogOption = None,
) -> None:
    """Show what a decider knows of a key, now or at a moment.

    The past is folded from the journal and the log: all that the decider had
    handled by a time, or up to the step in which it handled, or said, an event
    (the beginning of its id is enough). `eventlib history` shows the steps.

    [dim]Examples:[/dim]
      eventlib state order 536365
      eventlib state payment 536365 --at 2026-01-31T12:00:00.250Z
      eventlib state payment 536365 --at 6dd20bf1
      eventlib state shelf 85123A --json | jq .state.on_hand
    """
    from eventlib.cli.state import print_state

    print_state(LogOptions.of(context, app, log), decider, key, at, as_json=as_json)


app.command(cls=Command, rich_help_panel=_LOOK)(history)
app.command(cls=Command, rich_help_panel=_LOOK)(replay)
app.add_typer(parked, name="parked", rich_help_panel=_LOOK)
app.command(cls=Command, rich_help_panel=_COURSE)(reset)
app.command(cls=Command, rich_help_panel=_COURSE)(rerun)
app.command(cls=Command, rich_help_panel=_WIRING)(check)
app.command(cls=CountingCommand, rich_help_panel=_WIRING)(graph)
app.command(cls=Command, rich_help_panel=_WIRING)(export)
app.add_typer(schemas, name="schemas", rich_help_panel=_WIRING)
app.command(cls=Command, rich_help_panel="Build")(simulate)
app.command(cls=Command, rich_help_panel="Build")(new)
