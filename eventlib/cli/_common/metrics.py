"""The metrics and traces of a long-running command that runs no services."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import AsyncExitStack, closing, suppress
from typing import TYPE_CHECKING, Any

from eventlib.errors import RetryableError, WiringError
from eventlib.eventlog import EventLog
from eventlib.http.serving import Listening, metered
from eventlib.identity.identity import identity_of
from eventlib.model.choreography import Choreography
from eventlib.telemetry.options import telemetry_options

if TYPE_CHECKING:
    from eventlib.outbox.database import OutboxTable
    from eventlib.outbox.relay import Relay
    from eventlib.sinks.database import SinkDatabase
    from eventlib.sinks.running import SinkRunner
    from eventlib.telemetry.catalogue import Meter
    from eventlib.telemetry.counters import Snapshot
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
    try:
        from eventlib.telemetry.process import measured
    except ModuleNotFoundError as error:
        raise WiringError(f"metrics need the package {error.name}: install eventlib-sagas[telemetry]") from error

    listening = stack.enter_context(closing(Listening(address, option="--metrics-port")))
    app = stack.enter_context(measured(choreography, measured_by, see, lacks))
    return listening.url, (await stack.enter_async_context(listening.serve(metered(app, identity_of())))).task


def trace(stack: AsyncExitStack, log: EventLog, url: str) -> "Recorder | None":
    """Export spans of what is put on a log, if the environment asks for them; return what notes more. Raises: WiringError."""
    options = telemetry_options()
    if not options.traces:
        return None
    try:
        from eventlib.telemetry.process import telemetry_of
    except ModuleNotFoundError as error:
        raise WiringError(f"traces need the package {error.name}: install eventlib-sagas[telemetry]") from error
    telemetry = stack.enter_context(telemetry_of(log.choreography, url, options, metrics=False))
    if telemetry is None:
        return None
    log.observer = telemetry.recorder
    return telemetry.recorder


async def unless_failed(work: Coroutine[Any, Any, None], serving: "asyncio.Task[None] | None") -> None:
    """Do some work while metrics are served. Raises: what either fails with."""
    doing = asyncio.ensure_future(work)
    try:
        done, _ = await asyncio.wait([doing, *([serving] if serving else [])], return_when=asyncio.FIRST_COMPLETED)
        for each in done:
            each.result()
    finally:
        doing.cancel()
        await asyncio.wait([doing])


async def look_at_relay(work: "Relay", table: "OutboxTable") -> "Snapshot":
    """See what a relay is at; while its database does not answer, only what it has counted itself."""
    from eventlib.telemetry.counters import Snapshot

    seen = Snapshot()
    seen.add("eventlib.outbox.relayed", (work.name,), work.relayed)
    with suppress(RetryableError):
        waiting = await table.waiting()
        seen.add("eventlib.outbox.waiting", (work.name,), waiting.rows)
        seen.add("eventlib.outbox.held", (work.name,), waiting.held)
        seen.add("eventlib.outbox.oldest", (work.name,), waiting.oldest_s)
    return seen


async def look_at_sink(work: "SinkRunner", log: EventLog, database: "SinkDatabase") -> "Snapshot":
    """See what a sink is at; while its database or the log does not answer, only what it has counted itself."""
    from eventlib.sinks.consuming import topic_partitions
    from eventlib.telemetry.counters import Snapshot

    seen, sink = Snapshot(), database.sink
    seen.add("eventlib.sink.applied", (sink.name,), work.applied)
    with suppress(RetryableError):
        positions = await database.positions()
        seen.add("eventlib.sink.parked", (sink.name,), (await database.parked())[0])
        for topic, partition in topic_partitions(sink.topics):
            if (topic, partition) in positions:
                lag = max(await log.port.end(topic, partition) - positions[topic, partition], 0)
                seen.add("eventlib.sink.lag", (sink.name, topic, str(partition)), lag)
    return seen


async def look_at_webhooks(work: "WebhookRunner", log: EventLog) -> "Snapshot":
    """See what webhooks are at; while the log does not answer, only what this process has counted itself."""
    from eventlib.telemetry.counters import Snapshot
    from eventlib.webhooks.acts import status_of

    seen = Snapshot()
    for (name, outcome), count in work.attempts.items():
        seen.add("eventlib.webhook.attempts", (name, outcome), count)
    with suppress(RetryableError):
        for subscriber in work.subscribers.values():
            status = await status_of(log, subscriber, 0)
            if status.lag is not None:
                seen.add("eventlib.webhook.lag", (status.name,), status.lag)
            seen.add("eventlib.webhook.failed", (status.name,), status.failed)
            seen.add("eventlib.webhook.waiting", (status.name,), status.retried + status.waiting)
            seen.add("eventlib.webhook.disabled", (status.name,), int(status.disabled is not None))
    return seen
