"""Examines what tasks have noted on their changelogs: their times, and how much they remember of a key's requests."""

from collections.abc import Sequence

from eventlib.eventlog import EventLog
from eventlib.log.base import Log
from eventlib.log.reading import SkippingReader
from eventlib.model.record import Record, key_text
from eventlib.model.service import Service
from eventlib.operations.doctor.content import APART_MS, SYNCHRONISE
from eventlib.operations.doctor.finding import Diagnosis, some, warning
from eventlib.queries.task_metadata import TaskNotes
from eventlib.runtime.keyed_state import remembered_bytes
from eventlib.runtime.records import changelog_key
from eventlib.values import from_ms, now_ms

_NEWEST = 500
"""How many of each changelog partition's newest records are read."""

_MOST_REMEMBERED = 16_000
"""The bytes about requests, written again with each change of a key, that are too many."""


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


async def examine_memories(log: EventLog) -> list[Diagnosis]:
    """Find keys that write much about requests again with each change: an earlier release kept all of them with the key."""
    port, found = SkippingReader(log.port), list[Diagnosis]()
    there = await port.topics()
    for service in log.choreography.services:
        if service.changelog.name in there:
            found += [_grown(service, record) for record in await _largest(port, service)]
    return found


async def _largest(port: Log, service: Service) -> Sequence[Record]:
    """Return the record of the key that remembers most, of those that are too large."""
    grown = list[Record]()
    for partition in range(service.partitions):
        place = service.changelog.name, partition
        start, end = await port.start(*place), await port.end(*place)
        records = await port.read(*place, max(start, end - _NEWEST), _NEWEST)
        newest = {each.key: each for each in records}
        grown += [each for each in newest.values() if remembered_bytes(each) > _MOST_REMEMBERED]
    return sorted(grown, key=remembered_bytes)[-1:]


def _grown(service: Service, record: Record) -> Diagnosis:
    _, decider, key, _ = changelog_key(key_text(record))
    size = remembered_bytes(record)
    return warning(
        "requests",
        f"{service.name}: {decider} {key!r} writes {size:,} bytes about the requests that it has answered with each change, as "
        "an earlier release kept them",
        "nothing has to be done: with its next request the older ones get entries of their own. If it stays, its requests have "
        "long ids: give them shorter ones",
    )
