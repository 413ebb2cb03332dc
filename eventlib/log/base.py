"""The port to a log: what every log has to promise, whoever writes it.

Partitions of a topic are numbered from 0, offsets of a partition grow and are never given twice (they may have
gaps). Times are milliseconds since 1970-01-01 UTC. `eventlib.testing.log_contract` holds every adapter to this.
"""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping, MutableMapping, Sequence
from datetime import timedelta
from typing import NamedTuple

from eventlib.errors import UndecodableRecord
from eventlib.model.event import NO_HEADERS, Meta
from eventlib.model.topic import Topic
from eventlib.values import from_ms


class Record(NamedTuple):
    """What stands on the log: bytes under a key, and the CloudEvents attributes of the event in them.

    A log that has only headers (Kafka) writes the attributes as `ce_…` headers and `traceparent`; `headers` holds all
    others. An `offset` of -1 is given by the log on append. A `value` of None is a tombstone.
    """

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    id: str | None = None
    type: str | None = None
    source: str | None = None
    subject: str | None = None
    sequence: int | None = None
    correlation_id: str | None = None
    causation_id: str | None = None
    traceparent: str | None = None
    headers: tuple[tuple[str, bytes], ...] = ()

    @property
    def event_id(self) -> str:
        """The event's id; a record from somebody else has its place on the log as its id."""
        return self.id or f"{self.topic}/{self.partition}/{self.offset}"

    def placed(self, offset: int) -> "Record":
        """Return it as it stands at an offset; a third of what `_replace` takes, and every record is placed."""
        return tuple.__new__(Record, (*self[:2], offset, *self[3:]))

    def meta(self) -> Meta:
        """Return what the log knows of the event in this record."""
        event_id = self.event_id
        return Meta(
            event_id,
            self.topic,
            self.partition,
            self.offset,
            from_ms(self.timestamp_ms),
            self.correlation_id or event_id,
            self.causation_id,
            self.source or "",
            self.subject or "",
            self.sequence,
            self.traceparent,
            dict(self.headers) if self.headers else NO_HEADERS,
        )


def key_text(record: Record) -> str:
    """Return a record's key as the text that names it; bytes that are not UTF-8 are escaped."""
    return "" if record.key is None else text_of(record.key)


def text_of(key: bytes) -> str:
    """Return a key as the text that names it; bytes that are not UTF-8 are escaped."""
    try:
        return key.decode()
    except UnicodeDecodeError:
        return key.decode("utf-8", "backslashreplace")


def keep_newest(records: Iterable[Record], kept: MutableMapping[bytes, bytes], kind: str | None) -> None:
    """Fold records into each key's newest value, as `Log.newest` does."""
    for record in records:
        if record.key is None:
            continue
        key = text_of(record.key).encode()
        if record.value is not None and kind in {None, record.type}:
            kept[key] = record.value
        else:
            kept.pop(key, None)


def undecodable(record: Record, reason: str) -> UndecodableRecord:
    """Return the error for a record that cannot be read as an event of its topic."""
    return UndecodableRecord(reason, record.topic, record.partition, record.offset)


TopicPartition = tuple[str, int]

TOMBSTONES_KEPT = timedelta(hours=24)
"""How long compaction keeps a key's tombstone, so that whoever reads again within that time learns of the deletion."""

_FOLDED_AT_ONCE = 2_000


class Claim(NamedTuple):
    """The right to write as the one owner of a service's partition; a higher epoch ends the lower ones."""

    service: str
    partition: int
    epoch: int


class Reader(ABC):
    """Reads several partitions, each from a position of its own, and waits for what is appended later."""

    @abstractmethod
    async def poll(self, limit: int, timeout_s: float | None = None) -> list[Record]:
        """Return up to `limit` records, at once when there are any; else wait for one, the timeout, or `wake()`.

        Guarantee: the records of a partition come in offset order, each once; only committed ones; every partition
        gets its turn. Returns an empty list after the timeout, a `wake()`, or `close()`.
        Raises: DamagedRecord when a partition cannot be read on at its position, and again until that is sought past
        (`seek(…, error.resume_at)`). It holds no other partition back: their records are returned first, though not
        for more than a limited number of polls.
        """

    @abstractmethod
    def wake(self) -> None:
        """End the poll that is waiting now, or the next one, with what there is."""

    @abstractmethod
    def seek(self, partition: TopicPartition, offset: int) -> None:
        """Read this partition from `offset` on from now."""

    @abstractmethod
    def position(self, partition: TopicPartition) -> int:
        """Return the next offset that `poll` will look at; past gaps, so that it reaches the end.

        Guarantee: everything before it was returned by a poll, or is nothing; also while a poll is reading.
        """

    @abstractmethod
    async def ends(self) -> Mapping[TopicPartition, int]:
        """Return the next offset to be written of each partition, as of now."""

    @abstractmethod
    async def close(self) -> None:
        """Give back what the reader holds."""


class Membership(ABC):
    """One process's part in running a service: which of its partitions it owns.

    `progress` says the next input of each of its tasks' partitions, for a log whose tools show how far tasks lag; who
    runs them may set it. Nothing goes by it.
    """

    progress: Callable[[], Mapping[TopicPartition, int]] | None = None

    @property
    def is_counted(self) -> bool:
        """Whether the other members know of this one: who stops before that finds nobody to hand over to."""
        return True

    @abstractmethod
    async def changed(self, held: Mapping[int, Claim]) -> Mapping[int, Claim]:
        """Wait until what this process should own differs from `held`, and return it.

        Guarantee: at any time at most one claim of a partition can append; a dead owner's partition is claimed
        within seconds by a member that still lives. Raises: what keeps the log from telling, when trying again does
        not help; LogUnavailable when the log was closed.
        """

    async def stands_by(self, held: Collection[int]) -> Collection[int]:
        """Wait until the tasks that this process should keep a copy of differ from `held`, and return them.

        Where a takeover needs no copies, that is never.
        """
        del held
        await asyncio.Event().wait()
        return ()

    async def retire(self) -> None:  # noqa: B027  where the first free claim is anybody's, nobody has to be told
        """Take no claims any more, and let the others know what they get once it is given back.

        Guarantee: until then this member's claims count. It returns within seconds, also when nobody can be told.
        """

    async def moved(self, held: Mapping[int, Claim]) -> Mapping[int, Claim]:
        """Do as `changed` does, for who has no append under way: what it had to give up is given back at once."""
        claims = await self.changed(held)
        for partition, claim in held.items():
            if claims.get(partition) != claim:
                await self.give_back(claim)
        return claims

    async def give_back(self, claim: Claim) -> None:
        """Give one claim back that this member had to give up, or has retired from: its last append is made.

        Where a claim ends with the next owner's, there is nothing to do.
        """
        del claim

    @abstractmethod
    async def leave(self) -> None:
        """Give every claim back, so that another member can have them at once."""


class Batch(ABC):
    """A transaction that is being made: all that is appended to it becomes durable together, or nothing of it."""

    @abstractmethod
    def enter(self, claim: Claim) -> None:
        """Take in a claim: the transaction succeeds only while it is the newest of its service and partition.

        Raises: OwnershipLost when it is not, or when this transaction cannot be made under it.
        """

    @abstractmethod
    async def append(self, records: Sequence[Record]) -> list[int]:
        """Append records, and return the offsets that they have if the transaction succeeds.

        Raises: ContractError, and then nothing of this call is in the transaction; LogUnavailable.
        """

    @property
    @abstractmethod
    def is_full(self) -> bool:
        """Whether it is as large as it should be: what can wait waits for the next one, as others do for this one."""


class Share(ABC):
    """A part of a transaction that is worked out while it is being made, as one thing leads to another.

    It waits for nothing but the batch, and takes no longer than it has to: others who write wait for it. Exactly one
    of `committed` and `failed` is called, by whoever made the transaction, and both return at once.
    """

    @abstractmethod
    async def write(self, batch: Batch) -> None:
        """Append to the transaction; called at most once. What it raises is the reason that `failed` gets."""

    @abstractmethod
    def committed(self) -> None:
        """Take note: what was appended is durable. Raises nothing."""

    @abstractmethod
    def failed(self, error: Exception) -> None:
        """Take note: nothing was appended, perhaps not even tried; of other shares' fault as well. Raises nothing."""


class Log(ABC):
    """A durable, partitioned log.

    `url` is how it was opened, for messages; `log_id` is its own for ever, so that a cache of one log is never
    taken for that of another. Whatever names a topic or partition that is not there raises ContractError; a log that
    was closed raises LogUnavailable.
    """

    url: str
    log_id: str

    @abstractmethod
    async def create_topics(self, topics: Iterable[Topic]) -> None:
        """Create the topics that are not there yet; one that is takes retention, compaction and size from its declaration.

        Raises: TopicMismatch when one is there with another partition count or partitioner.
        """

    @abstractmethod
    async def topics(self) -> Mapping[str, Topic]:
        """Return the topics that are on the log, by name."""

    @abstractmethod
    async def delete_topics(self, names: Iterable[str]) -> None:
        """Delete topics with all that is in them, for good; those that are not there are passed over.

        For topics that nobody reads or writes any more: who still does gets ContractError, or finds nothing.
        A topic that is created under the name again is empty.
        """

    @abstractmethod
    async def append(self, records: Sequence[Record], claim: Claim | None = None) -> list[int]:
        """Append records, also to several topics, and return their offsets in the same order.

        Guarantee: all or nothing; durable when it returns; readers see none before. With a claim it fails
        when the claim is not the newest of its service and partition.
        Raises: OwnershipLost, LogFull, LogUnavailable, LogReadOnly, LogCorrupt; ContractError for a record over the
        topic's largest event, or on a topic or partition that does not exist.
        """

    def enlist(self, share: Share, claim: Claim) -> bool:
        """Let a share write to a transaction under a claim of this process; False where a log cannot have that.

        Raises: OwnershipLost.
        """
        del share, claim
        return False

    @abstractmethod
    async def read(self, topic: str, partition: int, offset: int, limit: int) -> list[Record]:
        """Return up to `limit` records from `offset` on, in order; fewer only at the end and before damage. Never waits.

        Raises: DamagedRecord when the first record is damaged; it can be read on from `resume_at`.
        """

    async def newest(
        self, place: TopicPartition, offset: int, kept: MutableMapping[bytes, bytes], kind: str | None
    ) -> int:
        """Fold a partition, from `offset` to its end, into each key's newest value, and return where that was.

        A key goes when its newest record is a tombstone, or not of type `kind` if one is given. Keys are their text in
        UTF-8. A log that can do with less than a `Record` for each of a million keys does so.
        Raises: DamagedRecord, when all before it has been folded.
        """
        end = await self.end(*place)
        while offset < end and (records := await self.read(*place, offset, _FOLDED_AT_ONCE)):
            keep_newest(records, kept, kind)
            offset = records[-1].offset + 1
        return max(offset, end)

    @abstractmethod
    async def start(self, topic: str, partition: int) -> int:
        """Return the offset of the oldest record that is kept, or the end when there is none."""

    async def log_start(self, topic: str, partition: int) -> int:
        """Return the offset from which on nothing has been dropped by retention.

        On a log that has gaps (an aborted transaction leaves one) the oldest record may stand after it. Of a compacted
        topic it says nothing.
        """
        return await self.start(topic, partition)

    @abstractmethod
    async def end(self, topic: str, partition: int) -> int:
        """Return the offset that the next record will have."""

    async def decided_end(self, topic: str, partition: int) -> int:
        """Return what `end` does, once all can be read that an append has returned for before, whoever made it.

        Raises: LogUnavailable when something undecided is in the way for long.
        """
        return await self.end(topic, partition)

    @abstractmethod
    async def offset_at(self, topic: str, partition: int, timestamp_ms: int) -> int:
        """Return the first offset whose record is not older than a time, or the end."""

    @abstractmethod
    def reader(self, positions: Mapping[TopicPartition, int]) -> Reader:
        """Open a reader at these positions."""

    @abstractmethod
    async def seize(self, service: str, partition: int) -> Claim:
        """Take a partition of a service now, ending any claim on it: for short acts by one writer.

        A member of the service, if there is one, takes it back after some seconds.
        """

    @abstractmethod
    async def join(self, service: str, partitions: int, standbys: int = 0) -> Membership:
        """Become a member of those who run a service.

        Where a log shares tasks out between machines, `standbys` other members keep a copy of each.
        """

    async def owners(self, service: str) -> Mapping[int, str] | None:
        """Return who has which partition of a service, in words for a person; None where a log cannot tell.

        Who died without a word may still be named, until somebody takes over.
        """
        del service
        return None

    async def keep_unarchived(self, ends: Mapping[TopicPartition, int] | None) -> bool:
        """Let retention drop nothing from these ends on, as far as this log can; it remembers them. None ends that.

        A partition that has no end keeps everything. Returns whether the log does so: where others drop records (the
        brokers of a cluster), it cannot. Deleting a topic and compaction are not held back.
        """
        del ends
        return False

    @abstractmethod
    async def compact(self) -> None:
        """Drop what retention and compaction no longer keep, now; runs by itself from time to time as well.

        Guarantee: a compacted topic keeps the newest record of each key. A tombstone goes when it is older than
        TOMBSTONES_KEPT and stood alone since an earlier compaction: who read an older value reads the tombstone too.
        """

    @abstractmethod
    async def close(self) -> None:
        """Close the log; claims that were not given back expire."""
