"""Following the ends of partitions: a few waiting requests to each broker, for all readers of the process."""

import asyncio
from typing import Any

from eventlib.errors import EventlibError
from eventlib.log.base import TopicPartition
from eventlib.log.kafka.client import Cluster
from eventlib.log.kafka.failures import Code, Transient, failure
from eventlib.log.kafka.partition_fetcher import Fetched, FetchSpec, Slot, fetch_request, fetched

_WAIT_MS = 200
"""How long a broker may wait for something new; a partition that is followed from now on waits as long at most."""

_BREATH_S = 0.003
_BREATH_A_PARTITION_S = 0.000_02
"""How long it rests after something came, so that more comes at once: a broker looks at all partitions of a request,
for each request, and again at each append while it waits."""

_NEW = (0, 0)
_LAST_EPOCH = 2**31 - 1
_MOST_BYTES = 500_000


class _Followed:
    """A partition's end as it is known here, and who waits there."""

    def __init__(self, offset: int) -> None:
        self.offset = offset
        self.slots = set[Slot]()


class Tail:
    """Follows partitions that one broker leads.

    It keeps a fetch session (KIP-227), so that a request and its answer name only what has changed. Whoever falls
    behind is let go, and catches up by itself.
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
        """Bring a slot what comes from now on; False when it is not at the end that is known here."""
        followed = self._followed.get(slot.place)
        if followed is None:
            followed = self._followed[slot.place] = _Followed(slot.fetched)
        elif slot.fetched < followed.offset:
            return False
        followed.slots.add(slot)
        slot.tail = self
        if self._following is None:
            self._following = asyncio.create_task(self._run(), name=f"kafka {self._lane} of broker {self._node}")
        return True

    def leave(self, slot: Slot) -> None:
        """Bring a slot nothing more."""
        slot.tail = None
        followed = self._followed.get(slot.place)
        if followed is not None:
            followed.slots.discard(slot)
            if not followed.slots:
                del self._followed[slot.place]

    async def close(self) -> None:
        """Stop."""
        if self._following is not None:
            self._following.cancel()
            await asyncio.gather(self._following, return_exceptions=True)

    async def _run(self) -> None:
        try:
            while self._followed:
                if await self._turn():
                    await asyncio.sleep(_BREATH_S + _BREATH_A_PARTITION_S * len(self._followed))
        except (Transient, EventlibError):
            pass  # each of them asks for itself now, and meets what is wrong if it is its own
        finally:
            self._following = None
            self._session, self._known = _NEW, {}
            for place in [*self._followed]:
                self._let_go(place)

    async def _turn(self) -> bool:
        """Ask once, and hand on what comes; False when nothing did."""
        asked = {place: followed.offset for place, followed in self._followed.items()}
        is_new = self._session[1] == 0
        changed = [
            FetchSpec(place, offset, _MOST_BYTES)
            for place, offset in asked.items()
            if is_new or self._known.get(place) != offset
        ]
        gone = [] if is_new else [place for place in self._known if place not in asked]
        message = fetch_request(self._cluster, changed, self._session, gone, _WAIT_MS)
        answer = await self._cluster.send(self._node, message, self._lane)
        if not self._goes_on(answer):
            return False
        self._known = asked
        found = fetched(self._cluster, answer, asked)
        for each in found:
            self._take(each)
        return bool(found)

    def _goes_on(self, answer: Any) -> bool:
        if answer.error_code in {Code.FETCH_SESSION_ID_NOT_FOUND, Code.INVALID_FETCH_SESSION_EPOCH}:
            self._session = _NEW
            return False
        if answer.error_code:
            raise failure(answer.error_code, "fetching")
        epoch = self._session[1]
        # A broker that keeps no session for us says 0: then each request is complete.
        self._session = (answer.session_id, 1 if epoch == _LAST_EPOCH else epoch + 1) if answer.session_id else _NEW
        return True

    def _take(self, each: Fetched) -> None:
        followed = self._followed.get(each.place)
        if followed is None:
            return
        if each.code:
            self._let_go(each.place)
        elif each.chunk is not None:
            followed.offset = max(followed.offset, each.chunk.next)
            for slot in [*followed.slots]:
                slot.deliver(each.chunk)
                if slot.fetched < followed.offset:  # it has no room, so it goes on by itself later
                    self.leave(slot)
                    slot.reader.look()

    def _let_go(self, place: TopicPartition) -> None:
        for slot in [*self._followed[place].slots]:
            self.leave(slot)
            slot.reader.look()
