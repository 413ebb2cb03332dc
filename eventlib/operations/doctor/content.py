"""Examines a log's content: topics against declarations, producers' clocks, hot keys."""

import asyncio
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from typing import NamedTuple

from eventlib.errors import TopicMismatch
from eventlib.log.base import Log
from eventlib.log.rules import refuse_mismatch
from eventlib.model.record import key_text
from eventlib.model.topic import Topic
from eventlib.operations.doctor.finding import Diagnosis, error, fine, some, warning
from eventlib.queries.task_metadata import TaskNotes
from eventlib.values import from_ms, now_ms

APART_MS = 2_000
"""How far apart two clocks may be to count as equal."""

SYNCHRONISE = "synchronise the clocks (chrony, systemd-timesyncd): deadlines and retention depend on them"


async def examine_times(log: Log, topics: Iterable[Topic]) -> Diagnosis:
    """Find events from the future: a writer's clock is ahead, and the tasks that read them park them."""
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
        f"a writer's clock was ahead, or this one is behind: {SYNCHRONISE}; what is parked for it (`eventlib parked list`) "
        "a retry handles as of the time when it came",
    )


async def _from_the_future(log: Log, topic: str, partition: int, after_ms: int) -> int | None:
    """Return the time of a partition's last record if any record is later than a time."""
    offset = await log.offset_at(topic, partition, after_ms)
    found = await log.read(topic, partition, offset, 1)
    return max((record.timestamp_ms for record in found), default=None)


async def examine_task_times(notes: TaskNotes) -> list[Diagnosis]:
    """Find tasks whose time is ahead of the clock: what they emit is dated so."""
    now = now_ms()
    times = {f"{service.name}/{task}": await notes.positions(service, task) for service, task in notes.tasks}
    ahead = {name: noted.at_ms for name, noted in times.items() if noted is not None and noted.at_ms > now + APART_MS}
    if not ahead:
        return []
    latest = max(ahead.values())
    services = dict.fromkeys(name.partition("/")[0] for name in ahead)
    commands = " and ".join(f"`eventlib reset-clock {name} --dry-run`" for name in services)
    return [
        warning(
            "task times",
            f"the time of {some([*ahead])} is ahead of this machine's clock, by up to {(latest - now) / 1000:,.0f} s: until "
            f"{from_ms(latest):%Y-%m-%d %H:%M:%S} UTC their events are dated ahead, and deadlines that follow from them come late",
            f"a clock was ahead when they ran, or this one is behind: {SYNCHRONISE}; then {commands}",
        )
    ]


_NEWEST = 500
"""How many of each partition's newest records are read."""

_FEWEST = 1_000
"""With fewer records on a topic, a key's share means nothing for load."""

_FAIR_SHARES = 2
_MOST = 0.5


class _Hot(NamedTuple):
    """A key, and its approximate share of its topic's events."""

    topic: Topic
    partition: int
    key: str
    share: float


async def examine_keys(log: Log, topics: Iterable[Topic]) -> list[Diagnosis]:
    """Find a key with more of a topic's newest events than two whole partitions should have."""
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
        "give the events a finer key (a part of what the key names now), or emit fewer of them: several in one event",
    )


_FIXED = {"name", "partitions", "partitioner"}


def examine_topics(there: Mapping[str, Topic], declared: Sequence[Topic]) -> list[Diagnosis]:
    """Compare the topics on a log with the choreography's declarations."""
    found = list[Diagnosis]()
    for topic in declared:
        if topic.name in there:
            found += _compare(there[topic.name], topic)
    missing = [topic.name for topic in declared if topic.name not in there]
    if missing and len(missing) < len(declared):
        found.append(
            warning("topics", f"not on the log yet: {some(missing)}", "the services create them at their next start")
        )
    elif missing:
        found.append(fine("topics", f"none of the {len(declared)} is on the log yet; `eventlib run` creates them"))
    return found or [fine("topics", f"all {len(declared)} are as the choreography declares them")]


def _compare(there: Topic, declared: Topic) -> list[Diagnosis]:
    try:
        refuse_mismatch(there, declared)
    except TopicMismatch as mismatch:
        what, _, remedy = str(mismatch).partition(". ")
        return [error("topics", what, remedy)]
    differ = [
        f"{field.name} is {getattr(there, field.name)}, declared {getattr(declared, field.name)}"
        for field in fields(Topic)
        if field.name not in _FIXED and getattr(there, field.name) != getattr(declared, field.name)
    ]
    if not differ:
        return []
    return [
        warning(
            "topics",
            f"topic {declared.name!r}: {'; '.join(differ)}",
            "the services apply the declaration at their next start; change it to keep the topic as it is",
        )
    ]
