"""Deliver events of the small application by webhook, and wait for what becomes of them."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from eventlib import EventLog
from eventlib.sinks.consuming import Status
from eventlib.webhooks import acts
from eventlib.webhooks.running import WebhookRunner
from eventlib.webhooks.sending import Observe
from eventlib.webhooks.subscribers import read_subscribers
from tests.integration.webhook_app import Counted
from tests.webhook_receiver import Delivered, Reply

LONGEST_S = 60
KEYS = "abcdefgh"


def declared(path: Path, **subscribers: str) -> Path:
    """Write a file of subscribers: a URL, and further lines."""
    always = (
        'events = ["Counted"]\nsecrets = ["env:HOOK_SECRET"]\nprivate = true\nretry_s = 0.01\nlongest_retry_s = 0.05'
    )
    tables = [f"[subscribers.{name}]\nurl = {lines}\n{always}\n" for name, lines in subscribers.items()]
    path.write_text("".join(tables))
    return path


@asynccontextmanager
async def delivering(log: EventLog, path: Path, observe: Observe = lambda _: None) -> AsyncIterator[WebhookRunner]:
    runner = WebhookRunner(log, path, observe=observe)
    task = asyncio.create_task(runner.run())
    try:
        yield runner
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def publish(log: EventLog, numbers: range, keys: str = KEYS) -> None:
    await log.publish_many([Counted(counter=each, number=number) for number in numbers for each in keys])


async def status(log: EventLog, path: Path, name: str = "one") -> Status:
    return await acts.status(log, read_subscribers(path)[name], 20)


async def until_status(log: EventLog, path: Path, **expected: object) -> Status:
    deadline = time.monotonic() + LONGEST_S
    while True:
        found = await status(log, path)
        if all(getattr(found, name) == value for name, value in expected.items()):
            return found
        assert time.monotonic() < deadline, found
        await asyncio.sleep(0.02)


def refusing(key: str, number: int, reply: Reply) -> Callable[[Delivered], Reply]:
    """Return what answers one event so, and takes all others."""

    def decide(each: Delivered) -> Reply:
        data = each.event.get_data()
        return reply if (data["counter"], data["number"]) == (key, number) else (204, {}, b"")

    return decide


def hang(_: Delivered) -> "asyncio.Future[Reply]":
    return asyncio.get_running_loop().create_future()


async def until_begun(log: EventLog, path: Path, *names: str) -> None:
    for name in names:
        while (await status(log, path, name)).lag is None:
            await asyncio.sleep(0.02)
