"""Finds out whether records exist after a backup: from the existing log, its watermark, the stores and any other copy."""

import sqlite3
from collections.abc import Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote

from eventlib.errors import EventlibError
from eventlib.log.base import Log, TopicPartition
from eventlib.log.open import open_port
from eventlib.log.sqlite.high_water import mark_beside, missing_offsets
from eventlib.log.sqlite.sealed import meta_value, partition_rows
from eventlib.model.record import key_text
from eventlib.operations.backup.manifest import Manifest
from eventlib.state.inspect import snapshots_in

_MOST_KEYS = 1_000
_AT_ONCE = 2_000


@dataclass(frozen=True, slots=True)
class Behind:
    """A partition of which a witness knows more than a backup: offsets from `first` and before `end`.

    `keys` are those of the records there, where the witness has them.
    """

    topic: str
    partition: int
    first: int
    end: int
    witness: str
    keys: tuple[str, ...] = ()


@dataclass(slots=True)
class Testimony:
    """The witnesses asked, those that could not be, what they know beyond a backup, and the least number of records."""

    witnesses: list[str] = field(default_factory=list)
    unreadable: list[str] = field(default_factory=list)
    other_log: str = ""
    seen: dict[TopicPartition, Behind] = field(default_factory=dict)
    missing: int = 0

    @property
    def behind(self) -> list[Behind]:
        """The partitions of which a witness knows more, in order."""
        return [self.seen[topic_partition] for topic_partition in sorted(self.seen)]

    def add(self, manifest: Manifest, ends: Mapping[TopicPartition, int], witness: str) -> None:
        """Add what a witness knows."""
        known = manifest.ends
        for (topic, partition), end in ends.items():
            first = known[topic, partition].end if (topic, partition) in known else 0
            before = self.seen.get((topic, partition))
            if end > (first if before is None else before.end):
                self.seen[topic, partition] = Behind(topic, partition, first, end, witness)


async def ask_witnesses(manifest: Manifest, path: Path, live: str | None) -> Testimony:
    """Ask all that is beside a log's file, and `live`, another log or archive of the same, what they know.

    Raises: what opening `live` raises.
    """
    found = Testimony()
    for witness, ask in (("the existing log", _ends_in), ("the local store", _ends_in_stores)):
        try:
            ends = ask(path, manifest.log_id)
        except (sqlite3.Error, EventlibError, ValueError) as error:
            found.unreadable.append(f"{witness}: {error}")
            continue
        if ends is None:
            continue
        if isinstance(ends, str):
            found.other_log = ends
            continue
        found.witnesses.append(witness)
        found.add(manifest, ends, witness)
    if live is not None:
        log = await open_port(live)
        try:
            await _add_live(found, manifest, log)
        finally:
            await log.close()
        found.witnesses.append(live)
    offsets = sum(each.end for each in manifest.partitions)
    mark = missing_offsets(mark_beside(path), manifest.log_id, offsets)
    found.missing = max(mark, sum(each.end - each.first for each in found.behind))
    return found


def _ends_in(path: Path, log_id: str) -> Mapping[TopicPartition, int] | str | None:
    """Return the ends of the log in a file, or its log_id when it is another log; None when there is no file."""
    if not path.exists():
        return None
    # Read-only: the last process to close a writable log checkpoints its write-ahead log, which may be the evidence.
    with closing(sqlite3.connect(f"file:{quote(str(path))}?mode=ro", uri=True, isolation_level=None)) as connection:
        found = meta_value(connection, "log_id") or "?"
        if found != log_id:
            return found
        return {(row[1], row[2]): row[3] for row, damage in partition_rows(connection) if not damage}


def _ends_in_stores(path: Path, log_id: str) -> Mapping[TopicPartition, int] | None:
    """Return the changelog ends that the stores beside a log's file know; None when there are none."""
    found = [each for each in _plain(path) if each[2] == log_id]
    return {(f"{service}.changelog", partition): end for service, partition, _, end in found} if found else None


def _plain(path: Path) -> Iterable[tuple[str, int, str, int]]:
    for each in snapshots_in(f"sqlite:///{path}", "", ""):
        yield each.service, each.partition, each.log_id, each.checkpoint


async def _add_live(found: Testimony, manifest: Manifest, log: Log) -> None:
    topics = await log.topics()
    ends = {(t.name, p): await log.end(t.name, p) for t in topics.values() for p in range(t.partitions)}
    found.add(manifest, ends, log.url)
    for topic_partition in list(found.seen):
        if topic_partition in ends:
            found.seen[topic_partition] = await _with_keys(found.seen[topic_partition], log)


async def _with_keys(behind: Behind, log: Log) -> Behind:
    """Return it with the keys of a log's records there."""
    keys, offset = dict[str, None](), behind.first
    while len(keys) < _MOST_KEYS:
        records = [
            each
            for each in await log.read(behind.topic, behind.partition, offset, _AT_ONCE)
            if each.offset < behind.end
        ]
        if not records:
            break
        keys |= dict.fromkeys(filter(None, map(key_text, records)))
        offset = records[-1].offset + 1
    return Behind(behind.topic, behind.partition, behind.first, behind.end, behind.witness, tuple(keys))
