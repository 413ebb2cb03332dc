"""The sinks, outboxes and subscribers that commands name, and the log that the work on subscribers is on."""

import asyncio
import os
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Protocol, TypeVar

from eventlib.analysis.connectors import Connector
from eventlib.cli._common import output
from eventlib.cli._common.options import LogOptions, argument, option
from eventlib.cli._common.output import counted
from eventlib.config.settings import eventlib_settings
from eventlib.errors import WiringError
from eventlib.eventlog import EventLog
from eventlib.ground.variables import read_settings
from eventlib.log.kafka.options import KafkaOptions
from eventlib.model.choreography import Choreography
from eventlib.model.project import load_choreography, load_named, named_connectors
from eventlib.opening import open_log
from eventlib.outbox.rows import Outbox, outbox_of
from eventlib.sinks.consuming import Status
from eventlib.values import iso_ms
from eventlib.webhooks.subscribers import Subscriber, read_subscribers

if TYPE_CHECKING:
    from eventlib.manifests.connectors import ConnectorProgram
    from eventlib.sinks.declaration import SqlSink

T = TypeVar("T")
SHOWN = 20
"""How many parked events are shown."""

FileOption = Annotated[
    Path | None, option("--subscribers", "FILE", "The subscribers, in TOML. [dim]Default: $EVENTLIB_WEBHOOKS[/dim]")
]


def _module_option(name: str, what: str, setting: str) -> Any:
    default = f"[dim]Default: {setting} in \\[tool.eventlib] of pyproject.toml[/dim]"
    return option(name, "MODULE:NAME", f"{what}; may be repeated. {default}")


SinksOption = Annotated[list[str] | None, _module_option("--sink", "A sink", "sinks")]

OutboxesOption = Annotated[list[str] | None, _module_option("--outbox", "An outbox", "outboxes")]

NameArgument = Annotated[str, argument("NAME", "The subscriber's name.")]


def file_of(given: Path | None) -> Path:
    """Return the file of subscribers: the option's, or the setting's. Raises: WiringError without one."""
    path = eventlib_settings(webhooks=None if given is None else str(given)).webhooks
    if path is None:
        raise WiringError("name the file of subscribers: --subscribers FILE, or EVENTLIB_WEBHOOKS")
    return Path(path)


def connectors_of(
    choreography: Choreography, sinks: Sequence[str] | None, outboxes: Sequence[str] | None, path: Path | None
) -> list[Connector]:
    """Return the sinks, outboxes and subscribers that are named, by options or as settings. Raises: WiringError."""
    found = [_outbox(choreography, each) for each in (outboxes or named_connectors("outboxes", Path.cwd()))]
    found += [_sink(choreography, each) for each in (sinks or named_connectors("sinks", Path.cwd()))]
    if path is not None or eventlib_settings().webhooks is not None:
        found += [_subscriber(choreography, each) for each in read_subscribers(file_of(path)).values()]
    return found


def programs_of(
    choreography: Choreography, sinks: Sequence[str] | None, outboxes: Sequence[str] | None, path: Path | None
) -> "list[ConnectorProgram]":
    """Return what runs the connectors that are named, by options or as settings. Raises: WiringError."""
    from eventlib.manifests.connectors import ConnectorProgram, relay_program, sink_program, webhook_program

    options, found = read_settings(KafkaOptions, {}), list[ConnectorProgram]()
    named_outboxes = [load_outbox(each) for each in (outboxes or named_connectors("outboxes", Path.cwd()))]
    if named_outboxes:
        from eventlib.outbox.relay import OUTBOXES  # which needs the database's driver

        names = dict.fromkeys(each.name for each in named_outboxes)
        found += [relay_program(choreography, name, OUTBOXES, options) for name in names]
    found += [sink_program(load_sink(each), each, options) for each in sinks or named_connectors("sinks", Path.cwd())]
    if path is not None or eventlib_settings().webhooks is not None:
        file = file_of(path)
        found.append(webhook_program(read_subscribers(file), choreography, file.read_text(encoding="utf-8"), options))
    return found


def print_rights(program: "ConnectorProgram") -> None:
    """Print a script that gives a connector's user its rights."""
    from eventlib.manifests.exporters import script

    print(script(program.user, program.topics))


def load_sink(named: str) -> "SqlSink":
    """Import a sink. Raises: WiringError when there is none."""
    from eventlib.sinks.declaration import sink_of

    return sink_of(named, _loaded("sink", named))


def load_outbox(named: str) -> Outbox:
    """Import an outbox. Raises: WiringError when there is none."""
    return outbox_of(named, _loaded("outbox", named))


def _loaded(option: str, named: str) -> object:
    if "DJANGO_SETTINGS_MODULE" in os.environ:  # the module may import models
        from eventlib.sinks.django import set_up

        set_up()
    return load_named(option, named, Path.cwd())


def _outbox(choreography: Choreography, named: str) -> Connector:
    outbox = load_outbox(named)
    _refuse_other(choreography, outbox.choreography, f"outbox {outbox.name}")
    return Connector("outbox", outbox.name, outbox.puts)


def _refuse_other(choreography: Choreography, own: Choreography, what: str) -> None:
    if own is not choreography:
        raise WiringError(f"{what} is one of {own.name}, not of {choreography.name}: name another --app")


def _sink(choreography: Choreography, named: str) -> Connector:
    sink = load_sink(named)
    _refuse_other(choreography, sink.choreography, f"sink {sink.name}")
    tables = None if sink.tables is None else len(sink.tables.tables)
    return Connector("sink", sink.name, tuple(sink.handlers), tables=tables)


def _subscriber(choreography: Choreography, found: Subscriber) -> Connector:
    events = tuple(found.event_types(choreography))
    return Connector("webhook", found.name, events, found.where, asks_for_all="*" in found.events)


def subscriber_of(path: Path | None, name: str) -> Subscriber:
    """Return a subscriber by its name. Raises: WiringError when there is none."""
    found = read_subscribers(file_of(path))
    if name not in found:
        known = ", ".join(found) or "none"
        raise WiringError(f"there is no subscriber {name!r} in {file_of(path)}: there are {known}")
    return found[name]


def on_log(options: LogOptions, work: Callable[[EventLog], Awaitable[T]], *, read_only: bool = False) -> T:
    """Do some work on the log, which needs no keys of personal fields, and return what it returns."""
    choreography = load_choreography(options.app)

    async def opened() -> T:
        async with open_log(options.url, choreography, services=[], read_only=read_only, personal=False) as log:
            return await work(log)

    return asyncio.run(opened())


class _Closes(Protocol):
    async def close(self) -> None: ...


D = TypeVar("D", bound=_Closes)


def on_database(database: D, work: Callable[[D], Awaitable[T]]) -> T:
    """Do some work on a database, close it, and return what the work returns."""

    async def worked() -> T:
        try:
            return await work(database)
        finally:
            await database.close()

    return asyncio.run(worked())


def show_status(every: Sequence[Status], *, as_json: bool) -> None:
    """Print how far sinks or subscribers are, with their first events that have an error."""
    if as_json:
        output.print_json([each.as_json() for each in every])
        return
    for each in every:
        print(_sentence(each))
    if any(each.first for each in every):
        table = output.table("name", "id", "type", "key", "attempts", "next", "why", right=["attempts"])
        for each in every:
            for event in each.first:
                due = "parked" if event.due_ms is None else iso_ms(event.due_ms) if event.due_ms else "now"
                shown = event.type or "", event.key or "", str(event.attempts or ""), due, event.error
                table.add_row(each.name, event.id, *shown)
        output.terminal().print(table)


def _sentence(status: Status) -> str:
    if status.lag is None:
        return f"{status.name} has not begun."
    parked = (
        f"{counted(status.failed, 'event')} parked, {status.retried:,} retried, {status.waiting:,} waiting behind them"
    )
    disabled = f" It is disabled: {status.disabled}." if status.disabled else ""
    lost = f" It stands still: dropped before they were applied: {'; '.join(status.lost)}." if status.lost else ""
    return f"{status.name} is {status.lag:,} offsets behind the log; {parked}.{disabled}{lost}"
