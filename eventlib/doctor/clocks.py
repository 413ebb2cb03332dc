"""Times on a log, and the clocks of whoever has written them."""

import asyncio
from collections.abc import Iterable

from eventlib.doctor.diagnosis import Diagnosis, fine, some, warning
from eventlib.log.port import Log
from eventlib.times import from_ms, now_ms
from eventlib.topic import Topic

APART_MS = 2_000
"""How far clocks are apart at most that count as the same."""

SYNCHRONISE = "synchronise the clocks (chrony, systemd-timesyncd): deadlines and retention go by them"


async def examine_times(log: Log, topics: Iterable[Topic]) -> Diagnosis:
    """Look for events from the future: a writer's clock is ahead, and all that follows from them has their time."""
    places = [(topic.name, partition) for topic in topics for partition in range(topic.partitions)]
    now = now_ms()
    newest = await asyncio.gather(*(_from_the_future(log, *place, now + APART_MS) for place in places))
    ahead = {place: at_ms for place, at_ms in zip(places, newest, strict=True) if at_ms}
    if not ahead:
        return fine("times", "no event is from the future")
    latest = max(ahead.values())
    names = list(dict.fromkeys(topic for topic, _ in ahead))
    return warning(
        "times",
        f"events on {some(names)} are from the future, by this machine's clock: up to {(latest - now) / 1000:,.0f} s, "
        f"until {from_ms(latest):%Y-%m-%d %H:%M:%S} UTC",
        f"a writer's clock was ahead, or this one is behind: {SYNCHRONISE}",
    )


async def _from_the_future(log: Log, topic: str, partition: int, after_ms: int) -> int | None:
    """Return the time of the last record of a partition when there is one after a time."""
    offset = await log.offset_at(topic, partition, after_ms)
    found = await log.read(topic, partition, offset, 1)
    return max((record.timestamp_ms for record in found), default=None)
