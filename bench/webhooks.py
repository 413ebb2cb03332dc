"""How many events a second one process delivers by webhook: `python -m bench.webhooks [EVENTS]`.

From a backlog on a file, to a receiver on this machine, in a process of its own, that answers 204 at once and verifies nothing;
each event has a key of its own, or all of one key.
"""

import asyncio
import multiprocessing
import os
import sys
import tempfile
import time
from multiprocessing.connection import Connection

from eventlib import EventLog, open_log
from eventlib.webhooks.endpoint import Endpoint
from eventlib.webhooks.running import runner_of
from eventlib.webhooks.sending import Attempt, Sender
from eventlib.webhooks.subscribers import Subscriber
from tests.integration.outbox_app import APP, Counted

_SECRET = "whsec_" + "c2VjcmV0IG9mIHRoZSB0ZXN0cyBvbmx5ISEhISEhISE="
_VARIABLE = "PERFORMANCE_SECRET"


def receive(told: Connection) -> None:
    """Answer every request with 204, and tell the port first."""
    asyncio.run(_receive(told))


async def _receive(told: Connection) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                length = next(line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
                await reader.readexactly(int(length.split(b":")[1]))
                writer.write(b"HTTP/1.1 204 No Content\r\n\r\n")
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    told.send(server.sockets[0].getsockname()[1])
    await server.serve_forever()


async def deliver(log: EventLog, subscriber: Subscriber, events: int) -> float:
    """Return how many seconds it takes to deliver all."""
    delivered, done = 0, asyncio.Event()

    def note(attempt: Attempt) -> None:
        nonlocal delivered
        delivered += len(attempt.events) if attempt.answer.error is None else 0
        if delivered >= events:
            done.set()

    runner = runner_of(log, subscriber, lambda: Sender(log, subscriber, Endpoint(subscriber), note))
    began = time.perf_counter()
    running = asyncio.create_task(runner.run())
    await asyncio.wait([running, asyncio.ensure_future(done.wait())], return_when=asyncio.FIRST_COMPLETED)
    took = time.perf_counter() - began
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    return took


async def measure(events: int, port: int) -> None:
    """Print the rate for each mode, and number of keys."""
    for keys in (events, 1):
        with tempfile.TemporaryDirectory() as kept:
            async with open_log(f"sqlite:///{kept}/log.db", APP) as log:
                for first in range(0, events, 1_000):
                    numbers = range(first, min(first + 1_000, events))
                    await log.publish_many([Counted(counter=str(n % keys), number=n) for n in numbers])
                for mode in ("structured", "binary", "batch"):
                    fields = {"name": mode, "url": f"http://127.0.0.1:{port}/hooks", "events": ["Counted"]}
                    more = {"secrets": [f"env:{_VARIABLE}"], "mode": mode, "begin": "start", "private": True}
                    took = await deliver(log, Subscriber.model_validate({**fields, **more}), events)
                    print(f"{mode:<10}  {keys:>6,} keys  {events / took:8,.0f} events/s", flush=True)


def main() -> None:
    """Measure beside a receiver."""
    os.environ[_VARIABLE] = _SECRET
    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(target=receive, args=(theirs,), daemon=True)
    process.start()
    try:
        asyncio.run(measure(int(sys.argv[1]) if len(sys.argv) > 1 else 5_000, ours.recv()))
    finally:
        process.terminate()


if __name__ == "__main__":
    main()
