"""What Spark's driver reads from a log before a job: its schemas, and where its partitions begin and end."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

from eventlib.codec.registry import AVRO, RegistryOptions
from eventlib.codec.remote_registry import RemoteRegistry
from eventlib.codec.schema_ids import Schemas
from eventlib.errors import LogUnavailable, WiringError
from eventlib.ground.url import log_file
from eventlib.ground.variables import read_settings
from eventlib.log.archive.files import read_manifest
from eventlib.log.archive.place import SCHEME, place_of
from eventlib.log.base import Log, TopicPartition
from eventlib.log.open import open_port

T = TypeVar("T")


def ask(url: str, question: Callable[[Log], Awaitable[T]]) -> T:
    """Run a query on a log, and return its result.

    Raises: WiringError for an invalid URL; LogUnavailable when there is no log.
    """
    refuse_missing(url)

    async def asked() -> T:
        log = await open_port(url)
        try:
            return await question(log)
        finally:
            await log.close()

    return in_thread(asked())


def in_thread(work: Coroutine[Any, Any, T]) -> T:
    """Run async work in a thread, and return its result: notebooks have a running event loop already."""
    with ThreadPoolExecutor(1, "asking a log") as pool:
        return pool.submit(asyncio.run, work).result()


def refuse_missing(url: str) -> None:
    """Refuse a missing SQLite log, before it is created. Raises: LogUnavailable."""
    path = log_file(url)
    if path is not None and not path.is_file():
        raise LogUnavailable(f"there is no log at {path}: name one as sqlite:///relative.db or sqlite:////absolute.db")


def records_on(url: str) -> int:
    """Return how many offsets a log has; its errors are so reported before Spark starts and a directory is created.

    Raises: WiringError for an invalid URL; LogUnavailable when there is no log, or its brokers do not answer.
    """
    return sum(map(len, spans(url).values()))


def spans(url: str) -> Mapping[TopicPartition, range]:
    """Return the current offsets of every partition of a log: from its oldest record up to the next offset.

    They are for `begin` and `end` of `log` and `events`: keep the ends to read only new records the next time.
    Raises: WiringError for an invalid URL; LogUnavailable when there is no log.
    """
    return ask(url, spans_of)


async def spans_of(log: Log, topics: Sequence[str] = ()) -> dict[TopicPartition, range]:
    """Return the current offsets of partitions, of all topics or of those named."""
    found = [topic for topic in (await log.topics()).values() if not topics or topic.name in topics]
    places = [(topic.name, partition) for topic in found for partition in range(topic.partitions)]
    starts = await asyncio.gather(*(log.start(*place) for place in places))
    ends = await asyncio.gather(*(log.end(*place) for place in places))
    return {place: range(start, end) for place, start, end in zip(places, starts, ends, strict=True)}


def schemas(url: str) -> Mapping[int, str]:
    """Return the Avro schemas on a log, or in the registry that EVENTLIB_REGISTRY names, by id.

    Raises: as `spans` does; UndecodableRecord; RegistryUnavailable, RegistryRefused.
    """
    options = read_settings(RegistryOptions, {}, also=None)

    async def question(log: Log) -> Mapping[int, str]:
        if options.registry is not None:
            return await _registered(RemoteRegistry(options.registry, options.registry_ca, options.registry_auth))
        found = Schemas(log)
        await found.refresh()
        return found.texts

    return ask(url, question)


async def _registered(registry: RemoteRegistry) -> Mapping[int, str]:
    try:
        found = [each for subject in await registry.subjects() for each in await registry.versions(subject)]
        return {each.id: each.schema.text for each in found if each.schema.kind == AVRO}
    finally:
        await registry.close()


def from_anywhere(url: str) -> str:
    """Return a log's URL for workers, whose working directory may differ."""
    scheme, _, path = url.partition(":")
    if scheme == "sqlite":
        return f"sqlite:///{Path(path.removeprefix('///')).absolute()}"
    return f"{SCHEME}{place_of(url)}" if url.startswith(SCHEME) else url


def archived_ends(archive: str, live: str, topics: Sequence[str]) -> Mapping[TopicPartition, int]:
    """Return where an archive ends in its log's partitions, to read the rest from the log.

    Raises: WiringError when `live` is another log; LogUnavailable when it has dropped records before they were archived.
    """
    if not archive.startswith(SCHEME):
        raise WiringError(
            f"{archive} is not an archive, so it has no live log: leave live={live!r} out, or read archive:DIR"
        )
    manifest = read_manifest(place_of(archive))

    async def question(log: Log) -> Mapping[TopicPartition, range]:
        if log.log_id != manifest.log_id:
            raise WiringError(f"{archive} was made of {manifest.log_url}, and {live} is another log")
        there = await log.topics()
        kept = [name for name, topic in there.items() if not topic.compacted and (not topics or name in topics)]
        return await spans_of(log, kept) if kept else {}

    for (topic, partition), span in ask(live, question).items():
        end = manifest.ends.get((topic, partition), 0)
        if span.start > end:
            raise LogUnavailable(
                f"{live} has dropped {topic}/{partition} from {end} to {span.start} before it was archived: read the "
                "archive and the log separately, and archive more often"
            )
    return manifest.ends
