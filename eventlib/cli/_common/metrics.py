"""Runs what a command that runs no services does on a log until it is stopped, with its metrics and traces."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import AsyncExitStack, closing, suppress
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from eventlib.cli._common.extras import installed_by
from eventlib.cli._common.stopping import Stopped, starting_up, stop_signal, unless_stopped
from eventlib.config.settings import eventlib_settings, runtime_config
from eventlib.errors import RetryableError
from eventlib.eventlog import EventLog
from eventlib.ground.startup import Startup
from eventlib.ground.tasks import cancelled, first_of
from eventlib.http.serving import Listening, metered
from eventlib.identity.identity import identity_of
from eventlib.model.choreography import Choreography
from eventlib.opening import open_log
from eventlib.personal.opening import has_personal
from eventlib.telemetry.logs import set_up_logging, tell
from eventlib.telemetry.options import TelemetryOptions, telemetry_options

if TYPE_CHECKING:
    from eventlib.outbox.database import OutboxTable
    from eventlib.outbox.relay import Relay
    from eventlib.sinks.applying import SinkRunner
    from eventlib.sinks.database import SinkDatabase
    from eventlib.telemetry.catalogue import Meter
    from eventlib.telemetry.counters import Snapshot
    from eventlib.telemetry.process import Telemetry
    from eventlib.telemetry.recorder import Recorder
    from eventlib.webhooks.running import WebhookRunner


def metrics_address(given: str | None) -> str | None:
    """Return where metrics are to be served; None when they are not."""
    options = telemetry_options()
    return None if options.sdk_disabled else given or options.metrics_place


async def serve_metrics(
    stack: AsyncExitStack,
    address: str,
    choreography: Choreography,
    measured_by: "Meter",
    see: "Callable[[], Awaitable[Snapshot]]",
    lacks: Callable[[], str],
) -> "tuple[str, asyncio.Task[None]]":
    """Serve metrics until the stack is left; return the address, and a task that ends only on failure.

    Raises: WiringError when they cannot be served.
    """
    with installed_by("telemetry"):
        from eventlib.telemetry.process import measured
    listening = stack.enter_context(closing(Listening(address, option="--metrics-port")))
    app = metered(measured(choreography, measured_by, see, lacks), identity_of())
    return listening.url, (await stack.enter_async_context(listening.serve(app))).task


def started_telemetry(
    stack: AsyncExitStack, choreography: Choreography, url: str, options: TelemetryOptions, *, metrics: bool
) -> "Telemetry | None":
    """Start the telemetry that is asked for, until the stack is left; without any, OpenTelemetry is not imported.

    Raises: WiringError without its packages.
    """
    if options.sdk_disabled or not (options.traces or metrics):
        return None
    with installed_by("telemetry"):
        from eventlib.telemetry.process import telemetry_of
    return stack.enter_context(telemetry_of(choreography, url, options, metrics=metrics))


def trace(stack: AsyncExitStack, log: EventLog, url: str) -> "Recorder | None":
    """Export spans of what is put on a log, if the environment asks for them; return what notes more. Raises: WiringError."""
    telemetry = started_telemetry(stack, log.choreography, url, telemetry_options(), metrics=False)
    if telemetry is None:
        return None
    log.observer = telemetry.recorder
    return telemetry.recorder


async def unless_failed(work: Coroutine[Any, Any, None], serving: "asyncio.Task[None] | None") -> None:
    """Do some work while metrics are served. Raises: what either fails with."""
    doing = asyncio.ensure_future(work)
    try:
        await first_of(doing, *([serving] if serving else []))
    finally:
        await cancelled(doing)


class Work(NamedTuple):
    """Work on an open log: what runs until it is cancelled, what its metrics show, and what it tells first and last."""

    run: Callable[[Startup], Coroutine[Any, Any, None]]
    see: "Callable[[], Awaitable[Snapshot]]"
    begins: str
    ended: Callable[[], str]


def work_until_stopped(  # noqa: PLR0913  what the commands differ in
    url: str,
    choreography: Choreography,
    name: str,
    measured_by: "Meter",
    metrics_port: str | None,
    begin: "Callable[[AsyncExitStack, EventLog, Recorder | None], Work]",
    *,
    personal: bool | None = None,
) -> None:
    """Open the log as soon as it answers, and do what `begin` makes of it until SIGINT or SIGTERM.

    Raises: what the work fails with; WiringError when metrics or traces cannot be had.
    """
    settings, metrics = eventlib_settings(), metrics_address(metrics_port)
    set_up_logging(settings.log_format, settings.log_level, personal=has_personal(choreography))

    async def done() -> None:
        stop = stop_signal()
        with starting_up(url, runtime_config().state_dir, name) as startup, suppress(Stopped):
            async with AsyncExitStack() as stack, unless_stopped(stop):
                opened = partial(open_log, url, choreography, services=[], personal=personal)
                log = await startup.enter(stack, "the log", opened)
                work = begin(stack, log, trace(stack, log, url))
                startup.begin(name)
                serving, shown = None, ""
                if metrics is not None:
                    lacks = lambda: startup.lacks  # noqa: E731  one line, used once
                    seen, serving = await serve_metrics(stack, metrics, choreography, measured_by, work.see, lacks)
                    shown = f" Metrics at {seen}/metrics."
                tell(f"{work.begins}.{shown}")
                stack.callback(lambda: tell(f"Stopped; {work.ended()}."))
                await unless_failed(begun(work, startup), serving)

    async def begun(work: Work, startup: Startup) -> None:
        startup.drop(name)  # what it waits for from here on, it says itself
        await work.run(startup)

    asyncio.run(done())


async def relay_snapshot(work: "Relay", table: "OutboxTable") -> "Snapshot":
    """Return what the metrics of a relay are now; while its database does not answer, only what it has counted itself."""
    from eventlib.telemetry.counters import Snapshot

    seen = Snapshot()
    seen.add("eventlib.outbox.relayed", (work.name,), work.applied)
    with suppress(RetryableError):
        waiting = await table.waiting()
        seen.add("eventlib.outbox.waiting", (work.name,), waiting.rows)
        seen.add("eventlib.outbox.held", (work.name,), waiting.held)
        seen.add("eventlib.outbox.oldest", (work.name,), waiting.oldest_s)
    return seen


async def sink_snapshot(work: "SinkRunner", log: EventLog, database: "SinkDatabase") -> "Snapshot":
    """Return what the metrics of a sink are now; while its database or the log does not answer, only what it has counted itself."""
    from eventlib.telemetry.counters import Snapshot

    seen, name = Snapshot(), database.sink.name
    seen.add("eventlib.sink.applied", (name,), work.applied)
    with suppress(RetryableError):
        status = await database.status(log.port, 0)
        seen.add("eventlib.sink.parked", (name,), status.waiting + status.failed)
        for place, lag in status.lags.items():
            labels = (name, place[0], str(place[1]))
            seen.add("eventlib.sink.lag", labels, lag)
            seen.add("eventlib.sink.lost", labels, status.dropped.get(place, 0))
    return seen


async def webhooks_snapshot(work: "WebhookRunner", log: EventLog) -> "Snapshot":
    """Return what the metrics of webhooks are now; while the log does not answer, only what this process has counted itself."""
    from eventlib.telemetry.counters import Snapshot
    from eventlib.webhooks import acts

    seen = Snapshot()
    for labels, count in work.attempts.items():
        seen.add("eventlib.webhook.attempts", labels, count)
    with suppress(RetryableError):
        for subscriber in work.subscribers.values():
            status = await acts.status(log, subscriber, 0)
            if status.lag is not None:
                seen.add("eventlib.webhook.lag", (status.name,), status.lag)
            seen.add("eventlib.webhook.lost", (status.name,), len(status.lost))
            seen.add("eventlib.webhook.failed", (status.name,), status.failed)
            seen.add("eventlib.webhook.waiting", (status.name,), status.retried + status.waiting)
            seen.add("eventlib.webhook.disabled", (status.name,), int(status.disabled is not None))
    return seen
