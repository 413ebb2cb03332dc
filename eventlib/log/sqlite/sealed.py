"""The small tables of an SQLite log, each row with a checksum: a row that has changed damages only what it describes."""

import logging
import sqlite3
from collections.abc import Callable, Iterable, Mapping, Sequence
from struct import Struct
from typing import Any

from xxhash import xxh3_64_intdigest

from eventlib.errors import WiringError
from eventlib.log.base import Claim, TopicPartition
from eventlib.log.checksum import MASK, computed, partition_seed, seal, seal_of
from eventlib.log.sqlite.damage import as_it_stands
from eventlib.log.sqlite.format import CHECKSUMS
from eventlib.log.sqlite.state import OwnerRow, PartitionState, topic_of

_log = logging.getLogger("eventlib.log")

_NUMBERS = Struct("<9q").pack
PARTITIONS = """
SELECT number, topic, partition, next_offset, newest_at, clean_to, kept, kept_bytes, dense_from, checked_from, digest,
    checksum
FROM partitions
"""
_MOVE = """
UPDATE partitions SET next_offset = ?, newest_at = ?, clean_to = ?, kept = ?, kept_bytes = ?, dense_from = ?,
    checked_from = ?, digest = ?, checksum = ? WHERE number = ?
"""
_UPDATE = """
UPDATE partitions SET topic = ?, partition = ?, next_offset = ?, newest_at = ?, clean_to = ?, kept = ?, kept_bytes = ?,
    dense_from = ?, checked_from = ?, digest = ?, checksum = ? WHERE number = ?
"""
_FAR_AHEAD = 1 << 32
_LOW_BITS = 31
_LOW = (1 << _LOW_BITS) - 1
_OWNERS = "SELECT service, partition, epoch, owner, checksum, seen_at FROM owners"
_MILESTONE = "INSERT OR REPLACE INTO milestones VALUES (?, ?, ?)"
_MILESTONES = """
SELECT position, newest_at, checksum FROM milestones
WHERE position >= :base AND position < :top AND newest_at < :at ORDER BY position DESC
"""


def partition_checksum(row: tuple[Any, ...]) -> int:
    """Return the checksum of a partition's row: number, topic, partition, and the eight numbers that follow."""
    number, topic, partition, *moving = row
    return xxh3_64_intdigest(_NUMBERS(number, *moving), partition_seed(topic, partition)) >> 1


def add_partitions(connection: sqlite3.Connection, topic_partitions: Iterable[TopicPartition]) -> None:
    """Create missing partitions. Raises: sqlite3.Error."""
    for topic_partition in topic_partitions:
        added = connection.execute("INSERT OR IGNORE INTO partitions (topic, partition) VALUES (?, ?)", topic_partition)
        if added.rowcount:
            seal_partitions(connection, connection.execute(f"{PARTITIONS} WHERE number = ?", (added.lastrowid,)))


def seal_partitions(connection: sqlite3.Connection, rows: Iterable[tuple[Any, ...]]) -> None:
    """Write the checksums of partitions' rows, as `PARTITIONS` reads them. Raises: sqlite3.Error."""
    seals = [(partition_checksum(row[:-1]), row[0]) for row in rows]
    connection.executemany("UPDATE partitions SET checksum = ? WHERE number = ?", seals)


def delete_rows(connection: sqlite3.Connection, state: PartitionState, which: str, values: Sequence[int] = ()) -> int:
    """Delete a partition's rows at the positions that a query returns, and subtract their records from its digest.

    Returns how many. `write_partitions` must follow in the same transaction. Raises: sqlite3.Error.
    """
    state.digest = state.digest - digest_of(connection, f"position IN ({which})", values) & MASK
    return connection.execute(f"DELETE FROM records WHERE position IN ({which})", values).rowcount  # noqa: S608  written by the caller


def digest_of(connection: sqlite3.Connection, condition: str, values: Sequence[int] = ()) -> int:
    """Return the sum of the checksums of the records in the rows that match a condition. Raises: sqlite3.Error."""
    # In two halves: SQLite refuses a sum that exceeds 64 bits.
    sums = f"ifnull(sum(({CHECKSUMS}) & {_LOW}), 0), ifnull(sum(({CHECKSUMS}) >> {_LOW_BITS}), 0)"
    low, high = connection.execute(f"SELECT {sums} FROM records WHERE {condition}", values).fetchone()  # noqa: S608  as above
    return int(low) + (int(high) << _LOW_BITS) & MASK


def write_partitions(connection: sqlite3.Connection, states: Iterable[PartitionState]) -> None:
    """Write the changed columns of partitions. Raises: sqlite3.Error."""
    rows = list[tuple[int, ...]]()
    for state in states:
        moving = state.moving
        checksum = partition_checksum((state.number, state.topic.name, state.partition, *moving))
        rows.append((*moving, checksum, state.number))
    connection.executemany(_MOVE, rows)


def partition_update(row: Sequence[Any]) -> tuple[str, Sequence[Any]]:
    """Return the statement that writes a partition's whole row, given as `partition_checksum` takes it."""
    return _UPDATE, (*row[1:], partition_checksum(tuple(row)), row[0])


def partition_rows(connection: sqlite3.Connection) -> Iterable[tuple[tuple[Any, ...], str]]:
    """Yield the partitions' rows, and what is wrong with each ("" for an intact one). Raises: sqlite3.Error."""
    for *row, checksum in _as_they_stand(connection, PARTITIONS):
        yield tuple(row), _damage(tuple(row), checksum, partition_checksum, "partitions")


def _as_they_stand(connection: sqlite3.Connection, sql: str) -> list[tuple[Any, ...]]:
    """Return the rows of a small table; invalid text damages only its own row. Raises: sqlite3.Error."""
    try:
        return connection.execute(sql).fetchall()
    except sqlite3.OperationalError:  # SQLite's error for invalid text
        strictly, connection.text_factory = connection.text_factory, as_it_stands
        try:
            return connection.execute(sql).fetchall()
        finally:
            connection.text_factory = strictly


def topic_rows(connection: sqlite3.Connection) -> list[tuple[Any, ...]]:
    """Return the topics' rows. A changed setting keeps everything. Raises: sqlite3.Error.

    A row that describes no topic is left out: the next declaration of the topic writes it again; its partitions still exist.
    """
    found = list[tuple[Any, ...]]()
    for *values, checksum in _as_they_stand(connection, "SELECT * FROM topics"):
        row = tuple(values)
        why = _damage(row, checksum, seal_of, "topics")
        if why:  # retention is paused until the topic is declared again
            row = (*row[:3], None, None, 0, *row[6:])
            try:
                topic_of(row)
            except (WiringError, TypeError, ValueError):
                _log.error("%s, and is left out", why)
                continue
        found.append(row)
    return found


def write_topics(connection: sqlite3.Connection, rows: Iterable[tuple[Any, ...]]) -> None:
    """Write topics' rows. Raises: sqlite3.Error."""
    sealed = [(*row, seal(*row)) for row in rows]
    connection.executemany("INSERT OR REPLACE INTO topics VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", sealed)


def owner_rows(connection: sqlite3.Connection) -> Mapping[tuple[str, int], OwnerRow]:
    """Return the owners. Raises: sqlite3.Error.

    A changed row is left out: its task is claimed again, with an epoch above every other one.
    """
    owners = dict[tuple[str, int], OwnerRow]()
    for *values, checksum, seen_at in _as_they_stand(connection, _OWNERS):
        service, partition, epoch, owner = values
        known = owners.get((service, partition))
        why = _damage(tuple(values), checksum, seal_of, "owners")
        if not why and (known is None or known.epoch < epoch):
            owners[service, partition] = OwnerRow(epoch, owner, seen_at)
    return owners


def write_owner(connection: sqlite3.Connection, claim: Claim, owner: str, seen_at: int) -> None:
    """Write the owner of a service's partition. Raises: sqlite3.Error."""
    service, partition, epoch = claim
    checksum = seal(service, partition, epoch, owner)
    connection.execute(
        "INSERT OR REPLACE INTO owners VALUES (?, ?, ?, ?, ?, ?)",
        (service, partition, epoch, owner, seen_at, checksum),
    )


def next_epoch(
    connection: sqlite3.Connection, owners: Mapping[tuple[str, int], OwnerRow], topic_partition: tuple[str, int]
) -> int:
    """Return the epoch of the next claim on a service's partition. Raises: sqlite3.Error."""
    known = owners.get(topic_partition)
    if known is not None:
        return known.epoch + 1
    rows = connection.execute("SELECT 1 FROM owners WHERE service = ? AND partition = ?", topic_partition).fetchone()
    # The epoch in an unreadable row is unknown; no claim was ever renewed as often as this.
    return 1 if rows is None else max((row.epoch for row in owners.values()), default=0) + _FAR_AHEAD


def write_milestones(connection: sqlite3.Connection, milestones: Iterable[tuple[int, int]]) -> None:
    """Write the latest time of all records before some positions. Raises: sqlite3.Error."""
    connection.executemany(_MILESTONE, [(position, at, seal(position, at)) for position, at in milestones])


def milestone_before(connection: sqlite3.Connection, state: PartitionState, at_ms: int) -> int:
    """Return a position of a partition before which all records are older than a time. Raises: sqlite3.Error."""
    for position, newest_at, checksum in connection.execute(_MILESTONES, {"at": at_ms, **state.range}):
        if checksum == seal(position, newest_at):
            return int(position)
    return state.base


def meta_value(connection: sqlite3.Connection, name: str) -> str | None:
    """Return a fact about the log, None when it is missing. Raises: sqlite3.Error."""
    try:
        row = connection.execute("SELECT value, checksum FROM meta WHERE name = ?", (name,)).fetchone()
    except sqlite3.OperationalError as error:
        if not str(error).startswith("Could not decode"):
            raise
        return "(damaged: its text is not UTF-8)"
    if row is None:
        return None
    why = _damage((name, row[0]), row[1], seal_of, "meta")
    return f"{row[0]} (damaged: {why})" if why else str(row[0])


_UNREAD = "unread/"
_READERS = "SELECT name, value, checksum FROM meta WHERE name >= 'unread/' AND name < 'unread0'"


def unread_name(service: str, number: int) -> str:
    """Return the name in the table meta of what a service has not read of a partition, by its number."""
    return f"{_UNREAD}{service}/{number}"


def unread_from(connection: sqlite3.Connection, number: int, is_there: Callable[[str], bool]) -> int | None:
    """Return from where on a service that `is_there` has not read a partition; None: no such service reads it.

    A row that does not match its checksum lets nothing be dropped. Raises: sqlite3.Error.
    """
    found = list[int]()
    for name, value, checksum in connection.execute(_READERS):
        service, _, of = name.removeprefix(_UNREAD).rpartition("/")
        if of == str(number) and is_there(service):
            found.append(int(value) if checksum == seal(name, value) else 0)
    return min(found, default=None)


def write_meta(connection: sqlite3.Connection, facts: Mapping[str, str]) -> None:
    """Write facts about the log. Raises: sqlite3.Error."""
    rows = [(name, value, seal(name, value)) for name, value in facts.items()]
    connection.executemany("INSERT OR REPLACE INTO meta VALUES (?, ?, ?)", rows)


def _damage(row: tuple[Any, ...], checksum: Any, checksum_of: Any, table: str) -> str:
    """Return what is wrong with a row; "" for an intact one."""
    if checksum == computed(row, checksum_of):
        return ""
    return f"a row of table {table} ({', '.join(map(repr, row[:3]))}) does not match its checksum"
