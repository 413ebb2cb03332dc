"""Heartbeats of a group's member while the loop of its process is blocked: from a thread with a loop of its own."""

import asyncio
import threading
from contextlib import suppress
from time import monotonic
from typing import NamedTuple, Protocol

from aiokafka.protocol.group import HeartbeatRequest

from eventlib.errors import EventlibError
from eventlib.log.kafka.client import GROUP, Cluster
from eventlib.log.kafka.failures import STALE_COORDINATOR, Code, Transient
from eventlib.log.kafka.options import KafkaOptions

BEATS = 6
"""How many heartbeats fit into the session timeout."""

_LATE = 2
"""After how many heartbeats that its own loop has left out a member gets them from the thread."""


class Standing(NamedTuple):
    """A member's place in its group: what a heartbeat names."""

    group: str
    generation: int
    member_id: str


class Beating(Protocol):
    """A member of a group as its own loop keeps it; `beaten_at` and `confirmed_at` are monotonic times."""

    standing: Standing | None
    beaten_at: float
    confirmed_at: float


class SpareHeart:
    """Sends a member's heartbeats while its own loop does not get to it, for at most `max_blocked_s` seconds.

    Guarantee: a handler or an effect that blocks the process costs it no task within that time; after it the loop is
    taken for dead, and the group expels the member. What else the group answers, the own loop finds out later.
    """

    def __init__(self, cluster: Cluster, member: Beating) -> None:
        self._hosts = [f"{broker.host}:{broker.port}" for broker in cluster.hosts]
        self._options: KafkaOptions = cluster.options
        self._member = member
        self._stopped = threading.Event()
        threading.Thread(target=self._run, name="kafka heartbeats", daemon=True).start()

    def stop(self) -> None:
        """Send no more heartbeats."""
        self._stopped.set()

    def _run(self) -> None:
        pause_s = self._options.session_timeout_s / BEATS
        while not self._stopped.wait(pause_s):
            if self._is_needed(pause_s):
                with suppress(EventlibError, Transient, OSError):  # the next round tries again
                    asyncio.run(self._beat_meanwhile(pause_s))

    def _is_needed(self, pause_s: float) -> bool:
        late_s = monotonic() - self._member.beaten_at
        is_late = _LATE * pause_s < late_s < self._options.max_blocked_s
        return is_late and self._member.standing is not None and not self._stopped.is_set()

    async def _beat_meanwhile(self, pause_s: float) -> None:
        """Send heartbeats over a connection of its own until the member's loop does so again."""
        cluster = Cluster(self._hosts, self._options)
        try:
            await cluster.start()
            while self._is_needed(pause_s):
                await self._beat(cluster)
                await asyncio.sleep(pause_s)
        finally:
            await cluster.close()

    async def _beat(self, cluster: Cluster) -> None:
        standing, asked_at = self._member.standing, monotonic()
        if standing is None:
            return
        node = await cluster.coordinator(GROUP, standing.group)
        answer = await cluster.send(node, HeartbeatRequest(*standing), "heartbeats")
        if answer.error_code in STALE_COORDINATOR:
            cluster.forget_coordinator(GROUP, standing.group)
        if answer.error_code == Code.NONE and self._member.standing == standing:
            self._member.confirmed_at = max(self._member.confirmed_at, asked_at)
