"""What Spark's driver asks a log beforehand: its schemas, and where its partitions begin and end."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

from eventlib.codec.schemas import Schemas
from eventlib.errors import LogUnavailable
from eventlib.log.open import open_port
from eventlib.log.port import Log, TopicPartition

T = TypeVar("T")


def ask(url: str, question: Callable[[Log], Awaitable[T]]) -> T:
    """Return a log's answer; in a thread, since notebooks have an event loop that runs already.

    Raises: WiringError for a URL that is none; LogUnavailable when there is no log.
    """
    refuse_missing(url)

    async def asked() -> T:
        log = await open_port(url)
        try:
            return await question(log)
        finally:
            await log.close()

    with ThreadPoolExecutor(1, "asking a log") as pool:
        return pool.submit(asyncio.run, asked()).result()


def refuse_missing(url: str) -> None:
    """Refuse an SQLite log that is not there, before it is made. Raises: LogUnavailable."""
    scheme, _, path = url.partition(":///")
    if scheme == "sqlite" and not Path(path).is_file():
        raise LogUnavailable(f"there is no log at {path}: name one as sqlite:///relative.db or sqlite:////absolute.db")


def spans(url: str) -> Mapping[TopicPartition, range]:
    """Return the offsets that every partition of a log has now: from its oldest record up to what comes next.

    They are for `begin` and `end` of `log` and `events`: who keeps the ends reads only what is new the next time.
    Raises: WiringError for a URL that is none; LogUnavailable when there is no log.
    """

    async def question(log: Log) -> Mapping[TopicPartition, range]:
        places = [(topic.name, p) for topic in (await log.topics()).values() for p in range(topic.partitions)]
        return {place: range(await log.start(*place), await log.end(*place)) for place in places}

    return ask(url, question)


def schemas(url: str) -> Mapping[int, str]:
    """Return the schemas on a log, by id. Raises: as `spans` does; UndecodableRecord."""

    async def question(log: Log) -> Mapping[int, str]:
        found = Schemas(log)
        await found.refresh()
        return found.texts

    return ask(url, question)
