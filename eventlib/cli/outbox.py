"""`eventlib outbox`: brings events that stand in the outbox of a database to the log."""

from contextlib import AsyncExitStack
from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING, Annotated

from eventlib.cli._common import output
from eventlib.cli._common.connectors import SHOWN, on_database, print_rights
from eventlib.cli._common.metrics import Work, relay_snapshot, work_until_stopped
from eventlib.cli._common.options import AppOnly, JsonOption, LogOptions, MetricsOption, argument, flag, option
from eventlib.cli._common.output import counted
from eventlib.cli._common.typer_ext import group
from eventlib.config.settings import eventlib_settings
from eventlib.errors import WiringError
from eventlib.eventlog import EventLog
from eventlib.ground.variables import read_settings
from eventlib.log.kafka.options import KafkaOptions
from eventlib.model.project import load_choreography
from eventlib.outbox.database import HeldRow, OutboxTable, Waiting
from eventlib.outbox.relay import OUTBOXES, Relay
from eventlib.outbox.rows import NAME, TABLE_SQL, refuse_name
from eventlib.telemetry.logs import tell

if TYPE_CHECKING:
    from eventlib.telemetry.recorder import Recorder

outbox = group("Bring events that stand in a database's outbox to the log.")

DatabaseOption = Annotated[
    str | None,
    option("--database", "URL", "postgresql://USER@HOST/DATABASE. [dim]Default: $EVENTLIB_OUTBOX_DATABASE[/dim]"),
]

NameOption = Annotated[str, option("--name", "NAME", "The outbox's name; each database has its own.")]


@outbox.command()
def relay(
    log_options: LogOptions,
    database: DatabaseOption = None,
    name: NameOption = NAME,
    metrics_port: MetricsOption = None,
    replication: Annotated[bool, flag("--replication", "Ignored.", hidden=True)] = False,
) -> None:
    """Bring events to the log until stopped, each once, those of a key in their order.

    Several processes may run with one name: one works, and another takes over
    when it dies. A row that cannot be an event stays in the table with the
    reason, and later ones of its key wait for it: `eventlib outbox status`.

    [dim]Examples:[/dim]
      eventlib outbox relay --database postgresql://shop@db/checkout
    """
    url = _database(database)
    if replication:
        tell("--replication is ignored: the relay asks the database every 20 ms")
    refuse_name(name, "--name")
    table, watched = OutboxTable(url), OutboxTable(url)

    def begin(stack: AsyncExitStack, opened: EventLog, _: "Recorder | None") -> Work:
        for each in (table, watched):
            stack.push_async_callback(each.close)
        work = Relay(opened, table, name)
        begins = f"Relaying the outbox {name} of {table.name} to {log_options.url}"
        see = partial(relay_snapshot, work, watched)
        return Work(work.run, see, begins, lambda: f"relayed {counted(work.applied, 'event')}")

    choreography = load_choreography(log_options.app)
    work_until_stopped(log_options.url, choreography, f"outbox {name}", "outbox", metrics_port, begin)


@outbox.command()
def status(database: DatabaseOption = None, as_json: JsonOption = False) -> None:
    """Show how much waits in an outbox, since when, and which rows are held and why.

    [dim]Examples:[/dim]
      eventlib outbox status --database postgresql://shop@db/checkout
    """

    async def looked(table: OutboxTable) -> tuple[Waiting, list[HeldRow]]:
        return await table.waiting(), await table.held(SHOWN)

    waiting, held = on_database(OutboxTable(_database(database)), looked)
    if as_json:
        counts = asdict(waiting) | {"oldest_s": round(waiting.oldest_s, 3)}
        output.print_json([{**counts, "first_held": [asdict(each) for each in held]}])
        return
    print(f"{counted(waiting.rows, 'row')} waiting, the oldest for {waiting.oldest_s:.1f} s; {waiting.held} held.")
    if held:
        shown = output.table("id", "type", "key", "why", right=["id"])
        for each in held:
            shown.add_row(str(each.id), each.type, each.key or "", each.error)
        output.terminal().print(shown)


@outbox.command()
def retry(
    row: Annotated[int | None, argument("[ID]", "A held row; without one, all.")] = None,
    database: DatabaseOption = None,
) -> None:
    """Let held rows be tried again, when the relay's code or the row is mended.

    [dim]Examples:[/dim]
      eventlib outbox retry 4711 --database postgresql://shop@db/checkout
    """
    rows = on_database(OutboxTable(_database(database)), lambda table: table.retry(row))
    if row is not None and not rows:
        raise WiringError(f"row {row} is not held: `eventlib outbox status` lists those that are")
    print(f"{counted(rows, 'row')} will be tried again.")


@outbox.command("table")
def table_() -> None:
    """Print the SQL that makes the table, for a migration.

    [dim]Examples:[/dim]
      eventlib outbox table | psql postgresql://shop@db/checkout
    """
    print(TABLE_SQL, end="")


@outbox.command()
def rights(log_options: AppOnly, name: NameOption = NAME) -> None:
    """Print a script that gives a relay's user its rights on a Kafka cluster.

    [dim]Examples:[/dim]
      eventlib outbox rights > rights.sh
    """
    from eventlib.cli._common.views import declared_views
    from eventlib.manifests.connectors import relay_program

    choreography, options = load_choreography(log_options.app), read_settings(KafkaOptions, {})
    print_rights(relay_program(choreography, name, OUTBOXES, options, declared_views(choreography)))


def _database(given: str | None) -> str:
    url = eventlib_settings(outbox_database=given).outbox_database
    if url is None:
        raise WiringError("name the database: --database postgresql://USER@HOST/DATABASE, or EVENTLIB_OUTBOX_DATABASE")
    return url
