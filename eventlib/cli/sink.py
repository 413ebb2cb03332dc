"""`eventlib sink`: writes events into tables of a database."""

import asyncio
from contextlib import AsyncExitStack
from functools import partial
from typing import TYPE_CHECKING, Annotated

from eventlib.cli._common.connectors import SHOWN, load_sink, on_database, print_rights, show_status
from eventlib.cli._common.metrics import Work, sink_snapshot, work_until_stopped
from eventlib.cli._common.options import JsonOption, LogOnly, MetricsOption, argument, flag, option
from eventlib.cli._common.output import counted
from eventlib.cli._common.prompts import YesOption, agree
from eventlib.cli._common.typer_ext import group
from eventlib.config.settings import eventlib_settings
from eventlib.eventlog import EventLog
from eventlib.ground.variables import read_settings
from eventlib.log.kafka.options import KafkaOptions
from eventlib.opening import open_log
from eventlib.sinks.applying import SinkRunner
from eventlib.sinks.consuming import Status
from eventlib.sinks.database import SinkDatabase, database_of
from eventlib.sinks.rebuilding import rebuild as rebuilt
from eventlib.telemetry.logs import tell

if TYPE_CHECKING:
    from eventlib.telemetry.recorder import Recorder


sink = group("Write events into tables of a database, each once.")

SinkArgument = Annotated[str, argument("MODULE:NAME", "Where the SqlSink or DjangoInbox is.")]

DatabaseOption = Annotated[
    str | None,
    option("--database", "URL", "postgresql://USER@HOST/DATABASE. [dim]Default: $EVENTLIB_SINK_DATABASE[/dim]"),
]


@sink.command()
def run(
    log_options: LogOnly,
    named: SinkArgument,
    database: DatabaseOption = None,
    metrics_port: MetricsOption = None,
) -> None:
    """Write events into tables until stopped: each once, with its position.

    Several processes share the work, and take over from one that dies. An event
    whose handler raises is parked with the error, and later ones of its topic
    and key wait for it: `eventlib sink status`.

    [dim]Examples:[/dim]
      eventlib sink run shop.reports:orders --database postgresql://shop@db/reports
    """
    found = load_sink(named)
    url = log_options.url_for(found.choreography)
    target = database_of(found, _database(database))

    def begin(stack: AsyncExitStack, opened: EventLog, recorder: "Recorder | None") -> Work:
        stack.push_async_callback(target.close)
        work = SinkRunner(opened, target, (lambda _: None) if recorder is None else recorder.applied)
        begins = f"Writing sink {found.name} from {url} to {target.name}"
        see = partial(sink_snapshot, work, opened, target)
        return Work(work.run, see, begins, lambda: f"applied {counted(work.applied, 'event')}")

    work_until_stopped(url, found.choreography, f"sink {found.name}", "sink", metrics_port, begin)


@sink.command()
def status(
    log_options: LogOnly,
    named: SinkArgument,
    database: DatabaseOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show how far a sink is behind the log, and which events are parked and why.

    [dim]Examples:[/dim]
      eventlib sink status shop.reports:orders --database postgresql://shop@db/reports
    """
    found = load_sink(named)
    url = log_options.url_for(found.choreography)

    async def looked(target: SinkDatabase) -> Status:
        async with open_log(url, found.choreography, read_only=True) as opened:
            return await target.status(opened.port, SHOWN)

    show_status([on_database(database_of(found, _database(database)), looked)], as_json=as_json)


@sink.command()
def retry(
    named: SinkArgument,
    event: Annotated[str | None, argument("[ID]", "A parked event; without one, all.")] = None,
    database: DatabaseOption = None,
) -> None:
    """Let parked events be tried again by the running sink, when its handlers are mended.

    [dim]Examples:[/dim]
      eventlib sink retry shop.reports:orders orders/3/17 --database postgresql://shop@db/reports
    """
    events = on_database(database_of(load_sink(named), _database(database)), lambda target: target.retry(event))
    print(f"{counted(events, 'event')} will be tried again, and those that wait behind.")


@sink.command()
def rebuild(
    log_options: LogOnly,
    named: SinkArgument,
    database: DatabaseOption = None,
    parked: Annotated[bool, flag("--parked", "Switch although events cannot be handled.")] = False,
    yes: YesOption = False,
) -> None:
    """Compute a sink's tables anew beside those of now, and switch.

    The sink may run meanwhile: with the same version it goes on in the new
    tables; an earlier version stops. The old tables stay in NAME_before.

    [dim]Examples:[/dim]
      eventlib sink rebuild shop.reports:orders --database postgresql://shop@db/reports
    """
    found, place = load_sink(named), _database(database)
    url = log_options.url_for(found.choreography)
    agree(f"Rebuild sink {found.name}, from the beginning of {url}?", yes=yes)

    async def done() -> int:
        async with open_log(url, found.choreography, services=[]) as opened:
            return await rebuilt(opened, found, place, tell, parked=parked)

    print(f"{found.name} is rebuilt from {counted(asyncio.run(done()), 'event')}.")


@sink.command()
def rights(named: SinkArgument) -> None:
    """Print a script that gives a sink's user its rights on a Kafka cluster.

    [dim]Examples:[/dim]
      eventlib sink rights shop.reports:orders > rights.sh
    """
    from eventlib.manifests.connectors import sink_program

    print_rights(sink_program(load_sink(named), named, read_settings(KafkaOptions, {})))


def _database(given: str | None) -> str | None:
    return eventlib_settings(sink_database=given).sink_database
