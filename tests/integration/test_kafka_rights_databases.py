"""A relay and a sink do their work with the rights that their commands print, and the sink may write no event."""

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, text

from eventlib import open_log
from eventlib.devtools.kafka import Cluster
from eventlib.errors import LogDenied
from eventlib.log.kafka.options import KafkaOptions
from eventlib.manifests.acls import user_name, users_of
from eventlib.manifests.connectors import relay_program, sink_program, webhook_program
from eventlib.manifests.topics import topic_specs
from eventlib.model.record import Record
from eventlib.operations.sending import prepare_sending
from eventlib.outbox.database import OutboxTable
from eventlib.outbox.relay import OUTBOXES, Relay
from eventlib.sinks.applying import SinkRunner
from eventlib.sinks.database import SinkDatabase
from eventlib.values import now_ms
from eventlib.webhooks.running import WebhookRunner
from eventlib.webhooks.subscribers import Subscriber
from tests.commands import said
from tests.integration.authorized import authorized_broker
from tests.integration.hooking import declared
from tests.integration.outbox_app import APP, Counted
from tests.integration.sink_app import outbox, totals
from tests.webhook_receiver import SECRET, receiving

OPTIONS = KafkaOptions(prefix="p.", application="counting", replication_factor=1)
RELAY, SINK = relay_program(APP, "outbox", OUTBOXES, OPTIONS), sink_program(totals, "", OPTIONS).user
INSTALLER = next(each for each in users_of(APP, OPTIONS, []) if each.name == user_name(OPTIONS, "installer"))


@asynccontextmanager
async def running(work: Coroutine[Any, Any, None], done: Callable[[], bool]) -> AsyncIterator[None]:
    task = asyncio.create_task(work)
    async with asyncio.timeout(60):
        while not done() and not task.done():
            await asyncio.sleep(0.05)
    if task.done():
        task.result()
    yield
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task


async def install(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> str:
    """Make the application's topics as who may do that, and return the log's URL."""
    log_url = f"{cluster.url}/?prefix={OPTIONS.prefix}&application={OPTIONS.application}"
    come_as(monkeypatch, cluster, INSTALLER.name)
    async with open_log(log_url, APP):
        return log_url


@pytest.mark.extended
async def test_with_the_least_rights(database_url: str, database: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    with database.begin() as connection:
        outbox.create(connection)
        outbox.put(connection, Counted(counter="a", number=1), Counted(counter="b", number=2))
    topics = [*topic_specs(APP, OPTIONS, []), *RELAY.topics]
    with authorized_broker([RELAY.user, SINK, INSTALLER], topics) as cluster:
        log_url = await install(cluster, monkeypatch)
        come_as(monkeypatch, cluster, RELAY.user.name)
        table = OutboxTable(database_url)
        async with open_log(log_url, APP, services=[]) as log:
            relay = Relay(log, table)
            async with running(relay.run(), lambda: relay.applied == 2):
                pass
        await table.close()
        come_as(monkeypatch, cluster, SINK.name)
        target = SinkDatabase(database_url, totals)
        async with open_log(log_url, APP, services=[]) as log:
            sink = SinkRunner(log, target)
            async with running(sink.run(), lambda: sink.applied == 2):
                with pytest.raises(LogDenied):
                    await log.port.append([Record("counts", 0, -1, now_ms(), b"c", b"")])
        await target.close()
    with database.connect() as connection:
        assert connection.execute(text("SELECT sum(total) FROM totals.totals")).scalar() == 3


@pytest.mark.extended
async def test_webhooks_with_the_least_rights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    subscriber = Subscriber(name="one", url="https://example.com", events=("Counted",), secrets=("env:NONE",))
    program = webhook_program({"one": subscriber}, APP, "", OPTIONS)
    user, topics = program.user, [*topic_specs(APP, OPTIONS, []), *program.topics]
    with authorized_broker([user, RELAY.user, INSTALLER], topics) as cluster:
        log_url = await install(cluster, monkeypatch)
        come_as(monkeypatch, cluster, RELAY.user.name)
        async with open_log(log_url, APP, services=[]) as log:
            await prepare_sending(log, Counted)
            await log.publish_many([Counted(counter="a", number=1), Counted(counter="b", number=2)])
        come_as(monkeypatch, cluster, user.name)
        monkeypatch.setenv("HOOK_SECRET", SECRET)
        async with open_log(log_url, APP, services=[]) as log, receiving() as receiver:
            runner = WebhookRunner(log, declared(tmp_path / "hooks.toml", one=f'"{receiver.url}"\nbegin = "start"'))
            async with running(runner.run(), lambda: runner.delivered == 2):
                with pytest.raises(LogDenied):
                    await log.port.append([Record("counts", 0, -1, now_ms(), b"c", b"")])


def come_as(monkeypatch: pytest.MonkeyPatch, cluster: Cluster, user: str) -> None:
    for variable in [name for name in os.environ if name.startswith("EVENTLIB_")]:
        monkeypatch.delenv(variable)
    for name, value in cluster.environment(user).items():
        monkeypatch.setenv(name, value)


def test_the_commands_print_these_rights(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EVENTLIB_KAFKA_PREFIX", "p.")
    printed = said("sink", "rights", "tests.integration.sink_app:totals")
    assert "--operation Read --operation Describe --operation DescribeConfigs --topic p.counts" in printed
    printed = said("outbox", "rights", "--app", "tests.integration.outbox_app:APP")
    assert "--create --if-not-exists --topic p._outbox" in printed
    assert "--operation Write --operation Describe --operation DescribeConfigs --topic p.counts" in printed
