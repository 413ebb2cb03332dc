"""What one instance of the server is made of, and the tasks that keep it going."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import httpx

from eventlib.log.port import Log
from eventlib.registry.catalogue import Catalogue
from eventlib.registry.following import View
from eventlib.registry.registrar import Registrar
from eventlib.registry.server.access import Access
from eventlib.registry.server.forwarding import Forwarding
from eventlib.registry.server.options import SchemasOptions
from eventlib.registry.topics import SCHEMAS, WRITERS
from eventlib.registry.writing import Writer


@dataclass(frozen=True, slots=True)
class Service:
    """One instance: what it knows, and how it writes."""

    catalogue: Catalogue
    registrar: Registrar
    forwarding: Forwarding
    access: Access
    failed: asyncio.Future[None]


@asynccontextmanager
async def open_service(log: Log, options: SchemasOptions, url: str) -> AsyncIterator[Service]:
    """Open an instance on a log; others reach it at a URL. It has read the whole topic when it is given.

    `failed` of what is given ends when the instance cannot go on. Raises: UndecodableRecord; what the log raises.
    """
    await log.create_topics([SCHEMAS, WRITERS])
    view = View(log, options.compatibility)
    writer = Writer(log, view, url)
    verify = httpx.create_ssl_context(verify=options.ca) if options.ca else True
    failed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    tasks = [asyncio.create_task(view.follow(), name="follow"), asyncio.create_task(writer.stand(), name="stand")]
    for task in tasks:
        task.add_done_callback(lambda done: _fail(failed, done))
    try:
        await view.catch_up()
        async with httpx.AsyncClient(verify=verify, trust_env=False) as client:
            forwarding = Forwarding(view, writer, url, client)
            registrar = Registrar(view.catalogue, writer)
            yield Service(view.catalogue, registrar, forwarding, Access(options), failed)
    finally:
        for task in reversed(tasks):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        failed.cancel()


def _fail(failed: asyncio.Future[None], done: asyncio.Task[None]) -> None:
    if not done.cancelled() and not failed.done() and (error := done.exception()) is not None:
        failed.set_exception(error)
