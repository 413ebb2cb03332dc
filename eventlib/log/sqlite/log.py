"""The embedded log: one SQLite file, durable with every append, shared by the processes of one machine."""

import asyncio
import sqlite3
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from secrets import token_hex
from typing import Self

from eventlib.errors import EventlibError
from eventlib.log.base import Claim, Log, Membership, Reader, Share, TopicIdentity, TopicPartition
from eventlib.log.processes import described, is_dead
from eventlib.log.reader import LogReader, Waiting
from eventlib.log.rules import refuse_mismatch
from eventlib.log.sqlite.append import Appender
from eventlib.log.sqlite.batches import first_at
from eventlib.log.sqlite.errors import is_busy
from eventlib.log.sqlite.file import LogFile
from eventlib.log.sqlite.format import IS_BATCH, OFFSETS
from eventlib.log.sqlite.owners import Owners
from eventlib.log.sqlite.pack import Packed
from eventlib.log.sqlite.reading import read_records
from eventlib.log.sqlite.retention import Upkeep
from eventlib.log.sqlite.schema import archived_ends, note_archived, retire, retired
from eventlib.log.sqlite.sealed import add_partitions, meta_value, milestone_before, write_meta, write_topics
from eventlib.log.sqlite.state import RecentRecords, SqliteOptions, row_of
from eventlib.model.record import Record
from eventlib.model.topic import Topic

_START = f"""
SELECT position - ({OFFSETS}) + 1 - :base FROM records WHERE position >= :base AND position < :top ORDER BY position LIMIT 1
"""  # noqa: S608  names of this package
# The first row that has such a record: a batch's time is the latest of its records'.
_AT = f"""
SELECT position - :base, iif({IS_BATCH}, value, NULL) FROM records
WHERE position >= :from AND position < :top AND recorded_at >= :at ORDER BY position LIMIT 1
"""  # noqa: S608  names of this package
_TOPIC_ID = "topic_id/"
"""The names in the table meta of the topics' identities; topics of older releases have none."""
_FREE = "SELECT freelist_count * page_size FROM pragma_freelist_count, pragma_page_size"


class SqliteLog(Log):
    """A durable log in one file, for one machine: open it with `SqliteLog.open`.

    Guarantee: an append is on disk when it returns (WAL, synchronous=FULL). What is appended or enlisted within one
    iteration of the event loop is one transaction.
    """

    def __init__(self, file: LogFile, url: str) -> None:
        self.url = url
        self.log_id = file.log_id
        self.waiting = Waiting(self._watch)
        self._file = file
        self._appender = Appender(file, self._appended)
        self._owners = Owners(file, self._watch)
        self._upkeep = Upkeep(file)
        self._watch_s = file.options.watch_active_s
        self._watching: asyncio.TimerHandle | None = None
        file.listeners.appended.append(self._appended)

    @classmethod
    async def open(cls, path: Path | str, *, options: SqliteOptions | None = None) -> Self:
        """Open a log, or create it; a missing directory is created.

        Raises: LogCorrupt, LogVersionMismatch, LogReadOnly, LogFull; LogUnavailable.
        """
        file = await LogFile.open(_absolute(path), options or SqliteOptions())
        return cls(file, f"sqlite:///{path}")

    @property
    def commits(self) -> int:
        """How many transactions this process has committed; records divided by commits is the group size."""
        return self._appender.commits

    async def create_topics(self, topics: Iterable[Topic]) -> None:
        """See `Log.create_topics`."""
        declared = [*topics]
        await self._file.refresh()
        if all(self._file.topics.get(topic.name) == topic for topic in declared):
            return  # so that a read-only log can be opened like any other

        def act(connection: sqlite3.Connection) -> None:
            for topic in declared:
                refuse_mismatch(self._file.topics.get(topic.name, topic), topic)
                if self._file.topics.get(topic.name) != topic:
                    self._file.count_again(topic.name)
            write_topics(connection, map(row_of, declared))
            # Only for new topics: a partition with a damaged row would restart at 0.
            new = [topic for topic in declared if topic.name not in self._file.topics]
            add_partitions(connection, ((topic.name, i) for topic in new for i in range(topic.partitions)))
            write_meta(connection, {f"{_TOPIC_ID}{topic.name}": token_hex(8) for topic in new})

        await self._file.write(act)
        # Also the partitions' ends: the topic may have existed before, and no offset is reused.
        await self._file.reload()

    async def retire(self, reason: str) -> None:
        """Refuse every further append, by any process, with LogReadOnly and a reason.

        Its records stay readable. Raises: LogReadOnly, LogUnavailable.
        """
        await self._file.write(lambda connection: retire(connection, reason))

    async def retired(self) -> str | None:
        """Return why it accepts no more records, None when it does."""
        await self._file.refresh()
        return retired(self._file.open_connection())

    async def delete_topics(self, names: Iterable[str]) -> None:
        """See `Log.delete_topics`."""
        await self._file.refresh()
        for name in names:
            if name in self._file.topics:
                await self._upkeep.delete(name)

    async def topics(self) -> Mapping[str, Topic]:
        """See `Log.topics`."""
        await self._file.refresh()
        return dict(self._file.topics)

    async def identities(self, names: Collection[str]) -> Mapping[str, TopicIdentity]:
        """See `Log.identities`."""
        await self._file.refresh()
        connection, there, found = self._file.open_connection(), self._file.topics, dict[str, TopicIdentity]()
        for name in (each for each in names if each in there):
            topic_id = meta_value(connection, f"{_TOPIC_ID}{name}") or ""
            known_id = topic_id if topic_id.isalnum() else ""  # else damaged
            found[name] = TopicIdentity(known_id, there[name].partitions, self._file.log_id)
        return found

    async def append(self, records: Sequence[Record], claim: Claim | None = None) -> list[int]:
        """See `Log.append`."""
        return await self._appender.append(records, claim)

    def enlist(self, share: Share, claim: Claim) -> bool:
        """See `Log.enlist`: a transaction may be made under any claims."""
        del claim
        self._appender.enlist(share)
        return True

    async def read(self, topic: str, partition: int, offset: int, limit: int) -> list[Record]:
        """See `Log.read`."""
        state = self._file.partitions.get((topic, partition))
        if state is not None and state.recent is not None:
            await self._file.refresh()  # other processes may have appended since
            recent = state.read_recent(offset, limit)
            if recent is not None:
                return recent
        records = await read_records(self._file, topic, partition, max(offset, 0), limit)
        if state is not None and state.recent is None and len(records) < limit:
            state.recent = RecentRecords(state.end)  # it has a reader at its end
        return records

    async def start(self, topic: str, partition: int) -> int:
        """See `Log.start`."""
        # The end first: appends made during this call must not lie before what it returns.
        end = await self.end(topic, partition)
        oldest = await self._file.read(_START, self._file.partition(topic, partition).range)
        return int(oldest[0][0]) if oldest else end

    async def end(self, topic: str, partition: int) -> int:
        """See `Log.end`."""
        await self._file.refresh()
        return (await self._file.known_partition(topic, partition)).end

    async def offset_at(self, topic: str, partition: int, timestamp_ms: int) -> int:
        """See `Log.offset_at`."""
        end = await self.end(topic, partition)
        state = self._file.partition(topic, partition)
        if timestamp_ms > state.newest_at:
            return end
        first = milestone_before(self._file.open_connection(), state, timestamp_ms)
        found = await self._file.read(_AT, {"at": timestamp_ms, "from": first, **state.range})
        return first_at(found[0][0], found[0][1], timestamp_ms) if found else end

    def reader(self, positions: Mapping[TopicPartition, int]) -> Reader:
        """See `Log.reader`."""
        for partition in positions:
            state = self._file.partition(*partition)
            if state.recent is None:
                state.recent = RecentRecords(state.end)  # what is appended from now on will be read
        return LogReader(self, positions)

    async def refresh(self) -> None:
        """Load what other processes have appended."""
        await self._file.refresh()

    def known_end(self, partition: TopicPartition) -> int:
        """Return the end offset, as of the last refresh or append. Raises: ContractError for an unknown topic."""
        try:
            return self._file.partitions[partition].end
        except KeyError:
            return self._file.partition(*partition).end  # raises

    async def seize(self, service: str, partition: int) -> Claim:
        """See `Log.seize`."""
        return await self._owners.seize(service, partition)

    async def owners(self, service: str) -> Mapping[int, str]:
        """See `Log.owners`."""
        await self._file.refresh()
        living = {p: row.owner for (name, p), row in self._file.owners.items() if name == service and row.owner}
        return {partition: described(owner) for partition, owner in living.items() if not is_dead(owner)}

    async def join(self, service: str, partitions: int, standbys: int = 0) -> Membership:
        """See `Log.join`; the processes share their stores, so that no copy is needed."""
        del standbys
        return await self._owners.join(service, partitions)

    async def keep_unarchived(self, ends: Mapping[TopicPartition, int] | None) -> bool:
        """See `Log.keep_unarchived`. Raises: LogReadOnly."""
        await self._file.refresh()
        numbers = None if ends is None else {self._file.partition(*key).number: end for key, end in ends.items()}
        if archived_ends(self._file.open_connection()) != numbers:
            await self._file.write(lambda connection: note_archived(connection, numbers))
        return ends is not None

    async def compact(self) -> None:
        """See `Log.compact`."""
        await self._upkeep.everything()

    async def pack(self, progress: Callable[[int], None] = lambda _: None) -> Packed:
        """Pack records that are rows into batches; services may run. `progress` gets how many more records were read.

        Guarantee: each record stays what it is, at its offset; what is interrupted continues by packing again.
        Raises: LogReadOnly, LogFull, LogUnavailable.
        """
        return await self._upkeep.pack(progress)

    async def shrink(self) -> None:
        """Give the file's free pages back to the disk; no other process can append meanwhile.

        Raises: LogReadOnly, LogFull, LogUnavailable.
        """
        await self._file.read("VACUUM")
        await self._file.read("PRAGMA wal_checkpoint(TRUNCATE)")

    async def free_bytes(self) -> int:
        """Return the bytes of the file's free pages."""
        return int((await self._file.read(_FREE))[0][0])

    async def close(self) -> None:
        """See `Log.close`."""
        if self._file.closed:
            return
        self._appender.close()
        await self._owners.close()
        await self._upkeep.close()
        if self._watching is not None:
            self._watching.cancel()
        self._file.close()
        self.waiting.look_all()

    def _appended(self, partitions: set[TopicPartition]) -> None:
        self._watch_s = self._file.options.watch_active_s
        self._upkeep.appended(partitions)
        self.waiting.appended(partitions)

    def _watch(self) -> None:
        """Poll for other processes' commits while readers in this process wait for them."""
        if self._watching is None and not self._file.closed:
            self._watching = asyncio.get_running_loop().call_later(self._watch_s, self._look)

    def _look(self) -> None:
        self._watching = None
        if not (self.waiting.readers or self._owners.stands_by):
            return
        self._watch_s = min(self._watch_s * 1.05, self._file.options.watch_idle_s)
        try:
            self._file.catch_up()
            self._file.refuse_replaced()
        except sqlite3.Error as error:
            if not is_busy(error):
                self.waiting.look_all()  # they hit the same error, and report it to their callers
        except EventlibError:
            self.waiting.look_all()
        self._watch()


def _absolute(path: Path | str) -> Path:
    return Path(path).absolute()
