"""Hot keys: one key's events are handled one after the other, so a key with many of a topic's is its limit."""

import asyncio
from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

from eventlib.doctor.diagnosis import Diagnosis, fine, warning
from eventlib.log.port import Log, key_text
from eventlib.topic import Topic

_NEWEST = 500
"""How many of each partition's newest records are looked at."""

_FEWEST = 1_000
"""Below so many records on a topic, a key says nothing about load."""

_FAIR_SHARES = 2
_MOST = 0.5


class _Hot(NamedTuple):
    """A key, and about which part of its topic's events it has."""

    topic: Topic
    partition: int
    key: str
    share: float


async def examine_keys(log: Log, topics: Iterable[Topic]) -> list[Diagnosis]:
    """Look for a key that has more of a topic's newest events than two whole partitions should have."""
    found = await asyncio.gather(*(_hottest(log, topic) for topic in topics if topic.partitions > 1))
    hot = [each for each in found if each is not None]
    return [_reported(each) for each in hot] or [fine("keys", "no key has far more events than others")]


async def _hottest(log: Log, topic: Topic) -> _Hot | None:
    partitions = range(topic.partitions)
    spans = [(await log.start(topic.name, p), await log.end(topic.name, p)) for p in partitions]
    counts = [end - start for start, end in spans]
    if sum(counts) < _FEWEST:
        return None
    hottest = max(range(topic.partitions), key=counts.__getitem__)  # a key has one partition, and makes it the longest
    start, end = spans[hottest]
    records = await log.read(topic.name, hottest, max(start, end - _NEWEST), _NEWEST)
    keys = Counter(key_text(record) for record in records if record.key is not None)
    if not keys:
        return None
    key, times = keys.most_common(1)[0]
    share = times / len(records) * counts[hottest] / sum(counts)
    limit = min(_FAIR_SHARES / topic.partitions, _MOST)
    return _Hot(topic, hottest, key or "", share) if share > limit else None


def _reported(hot: _Hot) -> Diagnosis:
    return warning(
        "keys",
        f"topic {hot.topic.name!r}: key {hot.key!r} has about {hot.share:.0%} of the events, in partition "
        f"{hot.partition} of {hot.topic.partitions}: they are handled one after the other, however many workers there are",
        "give the events a finer key (a part of what the key names now), or say fewer of them: several in one event",
    )
