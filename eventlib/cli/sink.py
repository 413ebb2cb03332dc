"""`eventlib sink`: writes events into tables of a database."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from eventlib.cli._common import output
from eventlib.cli._common.metrics import look_at_sink, metrics_address, serve_metrics, unless_failed
from eventlib.cli._common.options import JsonOption, LogOption, LogOptions, MetricsOption
from eventlib.cli._common.output import counted
from eventlib.cli._common.prompts import agree
from eventlib.cli._common.stopping import Stopped, starting_up, stop_signal, unless_stopped
from eventlib.cli._common.typer_ext import Command, Group
from eventlib.config.settings import eventlib_settings, runtime_config
from eventlib.config.variables import read_settings
from eventlib.errors import WiringError
from eventlib.log.kafka.options import KafkaOptions
from eventlib.opening import open_log
from eventlib.project import load_named
from eventlib.sinks.consuming import topic_partitions
from eventlib.sinks.database import SinkDatabase, behind
from eventlib.sinks.declaration import SqlSink
from eventlib.sinks.rebuilding import rebuild as rebuilt
from eventlib.sinks.running import SinkRunner
from eventlib.telemetry.logs import set_up_logging, tell

_PARKED_SHOWN = 20

sink = typer.Typer(
    add_completion=False,
    cls=Group,
    no_args_is_help=True,
    help="Write events into tables of a database, each once.",
)

SinkArgument = Annotated[str, typer.Argument(metavar="MODULE:NAME", help="Where the SqlSink is.", show_default=False)]

DatabaseOption = Annotated[
    str | None,
    typer.Option(
        "--database",
        metavar="URL",
        help="postgresql://USER@HOST/DATABASE. [dim]Default: $EVENTLIB_SINK_DATABASE[/dim]",
        show_default=False,
    ),
]


@sink.command(cls=Command)
def run(
    context: typer.Context,
    named: SinkArgument,
    database: DatabaseOption = None,
    metrics_port: MetricsOption = None,
    log: LogOption = None,
) -> None:
    """Write events into tables until stopped: each once, with its position.

    Several processes share the work, and take over from one that dies. An event
    whose handler raises is parked with the error, and later ones of its topic
    and key wait for it: `eventlib sink status`.

    [dim]Examples:[/dim]
      eventlib sink run shop.reports:orders --database postgresql://shop@db/reports
    """
    options, found, url = LogOptions.of(context, None, log), _sink(named), _database(database)
    settings = eventlib_settings()
    set_up_logging(settings.log_format, settings.log_level)
    asyncio.run(_run(options, found, url, metrics_address(metrics_port)))


async def _run(options: LogOptions, found: SqlSink, url: str, metrics: str | None) -> None:
    target, stop = SinkDatabase(url, found), stop_signal()
    with starting_up(options.url, runtime_config().state_dir, f"sink {found.name}") as startup:
        try:
            async with AsyncExitStack() as stack, unless_stopped(stop):
                stack.push_async_callback(target.close)
                log = await startup.enter(
                    stack, "the log", lambda: open_log(options.url, found.choreography, services=[])
                )
                work = SinkRunner(log, target)
                serving, shown = None, ""
                if metrics is not None:
                    see = partial(look_at_sink, work, log, target)
                    seen, serving = await serve_metrics(
                        stack, metrics, found.choreography, "sink", see, lambda: startup.lacks
                    )
                    shown = f" Metrics at {seen}/metrics."
                tell(f"Writing sink {found.name} from {options.url} to {target.name}.{shown}")
                stack.callback(lambda: tell(f"Stopped; applied {counted(work.applied, 'event')}."))
                await unless_failed(work.run(startup), serving)
        except Stopped:
            return


@sink.command(cls=Command)
def status(
    context: typer.Context,
    named: SinkArgument,
    database: DatabaseOption = None,
    as_json: JsonOption = False,
    log: LogOption = None,
) -> None:
    """Show how far a sink is behind the log, and which events are parked and why.

    [dim]Examples:[/dim]
      eventlib sink status shop.reports:orders --database postgresql://shop@db/reports
    """
    options, found = LogOptions.of(context, None, log), _sink(named)

    async def looked(target: SinkDatabase) -> None:
        async with open_log(options.url, found.choreography, read_only=True) as opened:
            places = topic_partitions(found.topics)
            there = await opened.port.topics()
            ends = [(each, await opened.port.end(*each)) for each in places if each[0] in there]
        positions, (parked, failed) = await target.positions(), await target.parked()
        first = await target.failed(_PARKED_SHOWN)
        lag = behind(positions, ends)
        if as_json:
            shown = [asdict(each) for each in first]
            output.print_json(
                [{"sink": found.name, "lag": lag, "parked": parked, "failed": failed, "first_failed": shown}]
            )
            return
        print(
            f"{found.name} is {lag:,} offsets behind the log; {counted(parked, 'event')} parked, {failed} with an error."
        )
        if failed:
            table = output.table("id", "type", "key", "at", "why", right=["id"])
            for each in first:
                at = f"{each.topic}/{each.partition}/{each.offset}"
                table.add_row(str(each.id), each.type or "", each.key or "", at, each.error)
            output.terminal().print(table)

    _on_database(found, database, looked)


@sink.command(cls=Command)
def retry(
    named: SinkArgument,
    event: Annotated[
        int | None, typer.Argument(metavar="[ID]", help="A parked event; without one, all.", show_default=False)
    ] = None,
    database: DatabaseOption = None,
) -> None:
    """Let parked events be tried again by the running sink, when its handlers are mended.

    [dim]Examples:[/dim]
      eventlib sink retry shop.reports:orders 17 --database postgresql://shop@db/reports
    """

    async def tried(target: SinkDatabase) -> None:
        events = await target.retry(event)
        if event is not None and not events:
            raise WiringError(f"event {event} is not parked with an error: `eventlib sink status` lists those that are")
        print(f"{counted(events, 'event')} will be tried again, and those that wait behind.")

    _on_database(_sink(named), database, tried)


@sink.command(cls=Command)
def rebuild(
    context: typer.Context,
    named: SinkArgument,
    database: DatabaseOption = None,
    parked: Annotated[
        bool, typer.Option("--parked", metavar="", help="Switch although events cannot be handled.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", metavar="", help="Do not ask.")] = False,
    log: LogOption = None,
) -> None:
    """Compute a sink's tables anew beside those of now, and switch.

    The sink may run meanwhile: with the same version it goes on in the new
    tables; an earlier version stops. The old tables stay in NAME_before.

    [dim]Examples:[/dim]
      eventlib sink rebuild shop.reports:orders --database postgresql://shop@db/reports
    """
    options, found, url = LogOptions.of(context, None, log), _sink(named), _database(database)
    agree(f"Rebuild sink {found.name}, from the beginning of {options.url}?", yes=yes)

    async def done() -> int:
        async with open_log(options.url, found.choreography, services=[]) as opened:
            return await rebuilt(opened, found, url, tell, parked=parked)

    print(f"{found.name} is rebuilt from {counted(asyncio.run(done()), 'event')}.")


@sink.command(cls=Command)
def rights(named: SinkArgument) -> None:
    """Print a script that gives a sink's user its rights on a Kafka cluster.

    [dim]Examples:[/dim]
      eventlib sink rights shop.reports:orders > rights.sh
    """
    from eventlib.manifests.databases import script, sink_user

    found = _sink(named)
    print(script(sink_user(found.name, found.topics, read_settings(KafkaOptions, {}))))


def _sink(named: str) -> SqlSink:
    found = load_named("sink", named, Path.cwd())
    if not isinstance(found, SqlSink):
        raise WiringError(f"{named} is a {type(found).__name__}, not a SqlSink: name one")
    if not found.handlers:
        raise WiringError(f"sink {found.name} handles nothing: write a function under @{named.rpartition(':')[2]}.on")
    return found


def _database(given: str | None) -> str:
    url = eventlib_settings(sink_database=given).sink_database
    if url is None:
        raise WiringError("name the database: --database postgresql://USER@HOST/DATABASE, or EVENTLIB_SINK_DATABASE")
    return url


def _on_database(found: SqlSink, database: str | None, work: Callable[[SinkDatabase], Awaitable[Any]]) -> None:
    async def opened() -> None:
        target = SinkDatabase(_database(database), found)
        try:
            await work(target)
        finally:
            await target.close()

    asyncio.run(opened())
