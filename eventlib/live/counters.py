"""The metrics of live views: counted while they run, or read when asked for."""

import asyncio
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from time import time
from typing import TYPE_CHECKING, Any

from faust.exceptions import ConsumerNotStarted
from faust.transport.drivers.aiokafka import KafkaError  # type: ignore[attr-defined]  # aiokafka's, which is not ours
from faust.types import TP

from eventlib.telemetry.counters import Snapshot

if TYPE_CHECKING:
    from eventlib.live.app import LiveApp

_PATIENCE_S = 5.0


@dataclass(frozen=True, slots=True)
class ViewCounters:
    """What has come to one service's views here, by topic."""

    read: Counter[str] = field(default_factory=Counter)
    failed: Counter[str] = field(default_factory=Counter)
    lost: Counter[str] = field(default_factory=Counter)
    newest_ms: dict[str, int] = field(default_factory=dict)

    def took(self, topic: str, records: Sequence[Any]) -> None:
        """Count records that were read."""
        if records:
            self.read[topic] += len(records)
            self.newest_ms[topic] = max(self.newest_ms.get(topic, 0), records[-1].timestamp)


async def views_snapshot(apps: Iterable["LiveApp"]) -> Snapshot:
    """Return what the metrics of views are now."""
    seen = Snapshot()
    for app in apps:
        _count(seen, app.of, app.counters)
        for at, lag in (await _lags(app)).items():
            seen.add("eventlib.live.lag", (app.of, app.connection.logical(at.topic), str(at.partition)), lag)
        for table in {rows.table.name: rows.table for rows in app.views.values()}.values():
            seen.add("eventlib.live.table.size", (app.of, table.name), table.store.size())
    return seen


def _count(seen: Snapshot, service: str, counters: ViewCounters) -> None:
    for topic in counters.read | counters.lost:
        seen.add("eventlib.live.records.read", (service, topic), counters.read[topic])
        seen.add("eventlib.live.records.failed", (service, topic), counters.failed[topic])
        seen.add("eventlib.live.records.lost", (service, topic), counters.lost[topic])
    for topic, newest_ms in counters.newest_ms.items():
        seen.add("eventlib.live.event.age", (service, topic), max(0.0, time() - newest_ms / 1000))


async def _lags(app: "LiveApp") -> Mapping[TP, int]:
    """Return what is left of each partition that is here; nothing while it starts, or brokers do not answer."""
    try:
        async with asyncio.timeout(_PATIENCE_S):
            return await app.lags()
    except (ConsumerNotStarted, KafkaError, TimeoutError):
        return {}
