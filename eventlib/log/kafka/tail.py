"""Follows the ends of partitions: a few waiting fetches per broker serve all readers of the process."""

import asyncio
from typing import Any

from eventlib.errors import EventlibError
from eventlib.ground.tasks import cancelled
from eventlib.log.base import TopicPartition
from eventlib.log.kafka.client import Cluster
from eventlib.log.kafka.failures import Code, Transient, failure
from eventlib.log.kafka.partition_fetcher import Fetched, FetchSpec, Slot, fetch_request, fetched

_WAIT_MS = 200
"""How long a fetch waits for new records, and so the longest delay of a partition that is added meanwhile."""

_PAUSE_S = 0.003
_PAUSE_PER_PARTITION_S = 0.000_02
"""The pause after a response, so that the next one returns more: a broker checks all partitions of a fetch when it
arrives, and again at each append while it waits."""

_NEW = (0, 0)
_LAST_EPOCH = 2**31 - 1
_MOST_BYTES = 500_000


class _Followed:
    """A partition's next offset to fetch, and the slots that wait there."""

    def __init__(self, offset: int) -> None:
        self.offset = offset
        self.slots = set[Slot]()


class Tail:
    """Follows partitions that one broker leads.

    It keeps a fetch session (KIP-227), so that requests and responses name only what has changed. A slot that falls
    behind is removed, and catches up by itself.
    """

    def __init__(self, cluster: Cluster, node: int, lane: str) -> None:
        self._cluster = cluster
        self._node = node
        self._lane = lane
        self._followed = dict[TopicPartition, _Followed]()
        self._session = _NEW
        self._known = dict[TopicPartition, int]()
        self._following: asyncio.Task[None] | None = None

    def follow(self, slot: Slot) -> bool:
        """Deliver new records to a slot from now on; False when the slot is behind the tail's offset."""
        followed = self._followed.get(slot.topic_partition)
        if followed is None:
            followed = self._followed[slot.topic_partition] = _Followed(slot.fetched)
        elif slot.fetched < followed.offset:
            return False
        followed.slots.add(slot)
        slot.tail = self
        if self._following is None:
            self._following = asyncio.create_task(self._run(), name=f"kafka {self._lane} of broker {self._node}")
        return True

    def leave(self, slot: Slot) -> None:
        """Stop delivering to a slot."""
        slot.tail = None
        followed = self._followed.get(slot.topic_partition)
        if followed is not None:
            followed.slots.discard(slot)
            if not followed.slots:
                del self._followed[slot.topic_partition]

    async def close(self) -> None:
        """Stop."""
        await cancelled(self._following)

    async def _run(self) -> None:
        try:
            while self._followed:
                if await self._fetch():
                    await asyncio.sleep(_PAUSE_S + _PAUSE_PER_PARTITION_S * len(self._followed))
        except (Transient, EventlibError):
            pass  # each slot fetches by itself now, and meets the error if it is its own
        finally:
            self._following = None
            self._session, self._known = _NEW, {}
            for topic_partition in [*self._followed]:
                self._let_go(topic_partition)

    async def _fetch(self) -> bool:
        """Fetch once, and deliver the records; False when there were none."""
        offsets = {topic_partition: followed.offset for topic_partition, followed in self._followed.items()}
        is_new = self._session[1] == 0
        changed = [
            FetchSpec(topic_partition, offset, _MOST_BYTES)
            for topic_partition, offset in offsets.items()
            if is_new or self._known.get(topic_partition) != offset
        ]
        removed = (
            [] if is_new else [topic_partition for topic_partition in self._known if topic_partition not in offsets]
        )
        message = fetch_request(self._cluster, changed, self._session, removed, _WAIT_MS)
        answer = await self._cluster.send(self._node, message, self._lane)
        if not self._continue_session(answer):
            return False
        self._known = offsets
        found = fetched(self._cluster, answer, offsets)
        for each in found:
            self._take(each)
        return bool(found)

    def _continue_session(self, answer: Any) -> bool:
        if answer.error_code in {Code.FETCH_SESSION_ID_NOT_FOUND, Code.INVALID_FETCH_SESSION_EPOCH}:
            self._session = _NEW
            return False
        if answer.error_code:
            raise failure(answer.error_code, "fetching")
        epoch = self._session[1]
        # Session id 0: the broker keeps no session, and each request must be complete.
        self._session = (answer.session_id, 1 if epoch == _LAST_EPOCH else epoch + 1) if answer.session_id else _NEW
        return True

    def _take(self, each: Fetched) -> None:
        followed = self._followed.get(each.topic_partition)
        if followed is None:
            return
        if each.code:
            self._let_go(each.topic_partition)
        elif each.chunk is not None:
            followed.offset = max(followed.offset, each.chunk.next)
            for slot in [*followed.slots]:
                slot.deliver(each.chunk)
                if slot.fetched < followed.offset:  # it has no room, so it continues by itself later
                    self.leave(slot)
                    slot.reader.look()

    def _let_go(self, topic_partition: TopicPartition) -> None:
        for slot in [*self._followed[topic_partition].slots]:
            self.leave(slot)
            slot.reader.look()
