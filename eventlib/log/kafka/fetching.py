"""Asking brokers for what stands in partitions, and for where they begin and end."""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from aiokafka.protocol.fetch import FetchRequest_v11
from aiokafka.protocol.offset import OffsetRequest

from eventlib.log.kafka.batches import Chunk
from eventlib.log.kafka.cluster import Cluster
from eventlib.log.kafka.failures import Code, failure
from eventlib.log.kafka.requests import Exactly
from eventlib.log.port import TopicPartition

LATEST, EARLIEST = -1, -2
"""The times that stand for a partition's ends."""

_A_CONSUMER = -1
_ALL, _COMMITTED = 0, 1
_ANY_EPOCH = -1
_RESPONSE_BYTES = 8_000_000

NO_SESSION = (0, -1)
"""The session of a fetch that stands for itself: its id, and how many fetches it had."""


class Wanted(NamedTuple):
    """From where a partition is to be fetched, and how many bytes at most; at least one batch comes."""

    place: TopicPartition
    offset: int
    most_bytes: int


class Fetched(NamedTuple):
    """A broker's answer about one partition: what it sent, and up to where there is something committed."""

    place: TopicPartition
    code: int
    end: int
    chunk: Chunk | None


async def fetch(cluster: Cluster, node: int, wanted: Sequence[Wanted], lane: str = "read") -> list[Fetched]:
    """Fetch what is there now, from one broker. Raises: Transient."""
    answer = await cluster.send(node, fetch_request(cluster, wanted), lane)
    if answer.error_code:
        raise failure(answer.error_code, "fetching")
    offsets = {each.place: each.offset for each in wanted}
    return fetched(cluster, answer, offsets)


def fetch_request(
    cluster: Cluster,
    wanted: Sequence[Wanted],
    session: tuple[int, int] = NO_SESSION,
    forgotten: Iterable[TopicPartition] = (),
    wait_ms: int = 0,
) -> Exactly:
    """Return the request for a fetch; in a session it names only what has changed since the last one."""
    topics = dict[str, list[tuple[int, ...]]]()
    for (topic, partition), offset, most_bytes in wanted:
        each = (partition, _ANY_EPOCH, offset, _A_CONSUMER, most_bytes)
        topics.setdefault(cluster.physical(topic), []).append(each)
    gone = dict[str, list[int]]()
    for topic, partition in forgotten:
        gone.setdefault(cluster.physical(topic), []).append(partition)
    return Exactly(
        FetchRequest_v11(
            _A_CONSUMER, wait_ms, 1, _RESPONSE_BYTES, _COMMITTED, *session, [*topics.items()], [*gone.items()], ""
        )
    )


def fetched(cluster: Cluster, answer: Any, offsets: Mapping[TopicPartition, int]) -> list[Fetched]:
    """Read the answer to a fetch; `offsets` are where each partition was fetched from. Raises: LogCorrupt."""
    found = list[Fetched]()
    for topic, partitions in answer.topics:
        name = cluster.logical(topic)
        for partition, code, _, end, _, aborted, _, data in partitions:
            place = (name, partition)
            most = cluster.options.inflated_bytes
            chunk = Chunk(place, offsets.get(place, 0), data, aborted, most) if data else None
            found.append(Fetched(place, code, end, chunk))
    return found


async def offsets_at(
    cluster: Cluster, places: Iterable[TopicPartition], time_ms: int, *, committed: bool = True
) -> dict[TopicPartition, int]:
    """Return the first committed offset at or after a time, of each partition; the end's for LATEST, -1 for none.

    With `committed=False` what is not decided yet counts as well. Raises: LogUnavailable, LogDenied.
    """
    isolation = _COMMITTED if committed else _ALL
    found = dict[TopicPartition, int]()
    left = set(places)

    async def attempt() -> None:
        by_leader = cluster.by_leader(left)
        asked = [_ask(cluster, node, theirs, (isolation, time_ms)) for node, theirs in by_leader.items()]
        for answers in await asyncio.gather(*asked):
            found.update(answers)
            left.difference_update(answers)

    await cluster.persist(attempt, cluster.options.request_timeout_s)
    return found


async def _ask(
    cluster: Cluster, node: int, places: Sequence[TopicPartition], what: tuple[int, int]
) -> dict[TopicPartition, int]:
    isolation, time_ms = what
    topics = dict[str, list[tuple[int, int]]]()
    for topic, partition in places:
        topics.setdefault(cluster.physical(topic), []).append((partition, time_ms))
    answer = await cluster.send(node, OffsetRequest(_A_CONSUMER, isolation, [*topics.items()]), "read")
    found = dict[TopicPartition, int]()
    for topic, partitions in answer.topics:
        for partition, code, _, offset in partitions:
            place = (cluster.logical(topic), partition)
            if code != Code.NONE:
                raise failure(code, f"asking for an offset of {place[0]}/{partition}")
            found[place] = offset
    return found
