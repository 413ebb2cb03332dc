"""The log backend interface: what every log guarantees.

Partitions of a topic are numbered from 0. Offsets of a partition increase and are never reused; they may have gaps.
Times are milliseconds since 1970-01-01 UTC. `eventlib.testing.log_contract` is the conformance suite of every adapter.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping, MutableMapping, Sequence
from datetime import timedelta
from math import inf
from typing import NamedTuple

from eventlib.errors import UndecodableRecord
from eventlib.model.record import Record, text_of
from eventlib.model.topic import Topic


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
    """Return the error for a record that cannot be decoded as an event of its topic."""
    return UndecodableRecord(reason, record.topic, record.partition, record.offset)


TopicPartition = tuple[str, int]

TOMBSTONES_KEPT = timedelta(hours=24)
"""How long compaction keeps a key's tombstone: a consumer that rereads within this time sees the deletion."""

_FOLDED_AT_ONCE = 2_000


class TopicIdentity(NamedTuple):
    """Which topic has a name now: its `id` differs once it was deleted and created again (empty: not known).

    `log` identifies the log: ids of two logs are not compared, since a copy has topics of its own.
    """

    id: str
    partitions: int
    log: str = ""


class OpenTransaction(NamedTuple):
    """A transaction that hides records of a partition: whose it is, for people, and when it last wrote there (ms)."""

    by: str
    first: int
    written_ms: int


class Claim(NamedTuple):
    """The right to write as the only owner of a service's partition; a higher epoch fences off the lower ones."""

    service: str
    partition: int
    epoch: int


class Reader(ABC):
    """Reads several partitions, each from its own position, and waits for new records."""

    @abstractmethod
    async def poll(self, limit: int, timeout_s: float | None = None) -> list[Record]:
        """Return up to `limit` records, at once when there are any; else wait for one, the timeout, or `wake()`.

        Guarantee: records of a partition come in offset order, each once, committed ones only; no partition starves.
        Returns an empty list after the timeout, a `wake()`, `close()`, or once when a position is not on the log.
        Raises: DamagedRecord when the record at a partition's position is damaged, on every poll until the reader seeks
        past it (`seek(…, error.resume_at)`). Records of other partitions are returned first, for a limited number of
        polls.
        """

    @abstractmethod
    def wake(self) -> None:
        """Make the poll that is waiting now, or else the next one, return what it has."""

    @abstractmethod
    def seek(self, partition: TopicPartition, offset: int) -> None:
        """Continue reading this partition at `offset`."""

    @abstractmethod
    def position(self, partition: TopicPartition) -> int:
        """Return the next offset that `poll` reads; gaps are skipped, so it reaches the end.

        Guarantee: every record before it was returned by a poll, also while a poll is in progress.
        """

    def take_lost(self) -> Mapping[TopicPartition, tuple[int, int]]:
        """Return the positions that turned out since the last call not to be on the log: each, and where it went on.

        That is the log's start, where retention dropped what comes before it; or its end, if that is before the position:
        then nothing is read before the reader seeks, or the end has passed it.
        """
        return {}

    @abstractmethod
    async def ends(self) -> Mapping[TopicPartition, int]:
        """Return the current end offset of each partition."""

    @abstractmethod
    async def close(self) -> None:
        """Release the reader's resources."""


class Membership(ABC):
    """One process's membership in a service: which of the service's partitions it owns.

    `progress` returns the next input offset of each topic partition its tasks consume, for logs whose tools show
    consumer lag, and for logs with a retention of their own: what the service has not read is kept while `holds_unread`.
    The runtime may set both.
    """

    progress: Callable[[], Mapping[TopicPartition, int]] | None = None
    holds_unread: bool = True

    @property
    def is_counted(self) -> bool:
        """Whether the other members know this one; one that leaves before that has no successor to hand over to."""
        return True

    @property
    def held_until(self) -> float:
        """Until when (event loop time) no other process can have claimed what this one holds, unless it was given back.

        For what a claim cannot fence off: calls of an external system. Infinity where no other process can claim it.
        """
        return inf

    def was_lost(self, claim: Claim) -> bool:
        """Tell whether the owner before a claim of this member was lost: it did not give the partition back.

        It died, or did nothing for so long that others count it as dead. One that seized the partition is not counted,
        nor is this process. False where owners cannot be lost without their successors.
        """
        del claim
        return False

    @abstractmethod
    async def changed(self, held: Mapping[int, Claim]) -> Mapping[int, Claim]:
        """Wait until the assignment differs from `held`, and return it.

        Guarantee: at any time at most one claim of a partition can append; a live member claims a dead owner's
        partition within seconds.
        Raises: the log's error, when retrying does not help; LogUnavailable when the log was closed.
        """

    async def stands_by(self, held: Collection[int]) -> Collection[int]:
        """Wait until the standby tasks assigned to this process differ from `held`, and return them.

        Never returns where a takeover needs no standby copies.
        """
        del held
        from asyncio import Event  # a service's import does not load asyncio

        await Event().wait()
        return ()

    async def retire(self) -> None:  # noqa: B027  no-op where any member may take the first free claim
        """Claim nothing more, and announce to the other members what they get once it is given back.

        Guarantee: until then this member's claims stay valid. Returns within seconds, also when no member can be
        reached.
        """

    async def moved(self, held: Mapping[int, Claim]) -> Mapping[int, Claim]:
        """Like `changed`, for a caller with no append in flight: revoked claims are given back at once."""
        claims = await self.changed(held)
        for partition, claim in held.items():
            if claims.get(partition) != claim:
                await self.give_back(claim)
        return claims

    async def give_back(self, claim: Claim) -> None:
        """Give back one claim that was revoked, or that this retired member still holds, after its last append.

        Does nothing where the next owner's claim ends this one.
        """
        del claim

    @abstractmethod
    async def leave(self) -> None:
        """Give back all claims, so that other members can take them at once."""


class Batch(ABC):
    """An open transaction: all that is appended to it becomes durable together, or none of it."""

    @abstractmethod
    def enter(self, claim: Claim) -> None:
        """Add a claim: the transaction commits only while it is the newest of its service and partition.

        Raises: OwnershipLost when it is not, or when this transaction cannot run under it.
        """

    @abstractmethod
    async def append(self, records: Sequence[Record]) -> list[int]:
        """Append records, and return the offsets they have if the transaction commits.

        Raises: ContractError, and then nothing of this call is in the transaction; LogUnavailable.
        """

    @property
    @abstractmethod
    def is_full(self) -> bool:
        """Whether it has reached its target size: what can wait goes into the next one."""


class Share(ABC):
    """A participant in a transaction, which computes its records while the transaction is open.

    It awaits only the batch, and is quick: other writers wait for it. Exactly one of `committed` and `failed` is
    called, by the log that runs the transaction; both return at once.
    """

    @abstractmethod
    async def write(self, batch: Batch) -> None:
        """Append to the transaction; called at most once. What it raises is passed to `failed`."""

    @abstractmethod
    def committed(self) -> None:
        """Handle the commit: the records are durable. Raises nothing."""

    @abstractmethod
    def failed(self, error: Exception) -> None:
        """Handle a failure, maybe of another share: nothing was appended, or even tried. Raises nothing."""


class Log(ABC):
    """A durable, partitioned log.

    `url` is how it was opened, for messages; `log_id` identifies it permanently, so that a cache of one log is never
    used for another. A topic or partition that does not exist raises ContractError; a closed log raises LogUnavailable.
    """

    url: str
    log_id: str

    numbers_again: bool = False
    """Whether a topic that is created again under the name of a deleted one numbers its records from 0 again."""

    @abstractmethod
    async def create_topics(self, topics: Iterable[Topic]) -> None:
        """Create missing topics; existing ones take retention, compaction and size limits from their declaration.

        Raises: TopicMismatch when one exists with another partition count or partitioner.
        """

    @abstractmethod
    async def topics(self) -> Mapping[str, Topic]:
        """Return the topics of the log, by name."""

    async def identities(self, names: Collection[str]) -> Mapping[str, TopicIdentity]:
        """Return which topics have these names now; those that do not exist are left out."""
        there = await self.topics()
        return {name: TopicIdentity("", there[name].partitions) for name in names if name in there}

    @abstractmethod
    async def delete_topics(self, names: Iterable[str]) -> None:
        """Delete topics and their records permanently; missing topics are ignored.

        For topics that have no producers and consumers any more: a later access raises ContractError, or finds nothing.
        A topic created again under the same name is empty.
        """

    @abstractmethod
    async def append(self, records: Sequence[Record], claim: Claim | None = None) -> list[int]:
        """Append records, to one or several topics, and return their offsets in the same order.

        Guarantee: atomic; durable when it returns; not visible to readers before. Fails unless `claim`, if given, is
        the newest of its service and partition.
        Raises: OwnershipLost, LogFull, LogUnavailable, LogReadOnly, LogCorrupt; ContractError for a record over the
        topic's largest event, or on a topic or partition that does not exist.
        """

    def enlist(self, share: Share, claim: Claim) -> bool:
        """Add a share to a transaction under a claim of this process; False if the log does not support shares.

        Raises: OwnershipLost.
        """
        del share, claim
        return False

    @abstractmethod
    async def read(self, topic: str, partition: int, offset: int, limit: int) -> list[Record]:
        """Return up to `limit` records from `offset` on, in order. Never waits.

        Guarantee: fewer than `limit` only at the end, or before damage; never because of how the log stores them, as in
        batches. So a shorter answer is the last one before the end or the damage, and an offset that is missing in an
        answer has no record.
        Raises: DamagedRecord when the first record is damaged; reading can continue at its `resume_at`.
        """

    async def newest(
        self, topic_partition: TopicPartition, offset: int, kept: MutableMapping[bytes, bytes], kind: str | None
    ) -> int:
        """Fold a partition, from `offset` to its end, into the newest value of each key; return the end offset.

        A key is removed when its newest record is a tombstone, or not of type `kind` if one is given. Keys are their
        text in UTF-8. Adapters override this to avoid a `Record` object per key.
        Raises: DamagedRecord, after folding everything before it.
        """
        end = await self.end(*topic_partition)
        while offset < end and (records := await self.read(*topic_partition, offset, _FOLDED_AT_ONCE)):
            keep_newest(records, kept, kind)
            offset = records[-1].offset + 1
        return max(offset, end)

    @abstractmethod
    async def start(self, topic: str, partition: int) -> int:
        """Return the offset of the oldest record that is kept, or the end when there is none."""

    async def log_start(self, topic: str, partition: int) -> int:
        """Return the offset below which retention has dropped records, and none from it on.

        It can lie before the oldest record where the log has gaps (as an aborted transaction leaves one). Undefined for
        compacted topics.
        """
        return await self.start(topic, partition)

    @abstractmethod
    async def end(self, topic: str, partition: int) -> int:
        """Return the offset of the next record."""

    async def written_end(self, topic: str, partition: int) -> int:
        """Return the offset after the newest record, also if that is behind an open transaction and cannot be read yet."""
        return await self.end(topic, partition)

    async def holders(self, topic: str, partition: int) -> Sequence[OpenTransaction]:
        """Return the open transactions that hide records of a partition from readers, as far as the log knows them."""
        del topic, partition
        return ()

    async def decided_end(self, topic: str, partition: int) -> int:
        """Return `end`, once every append that returned before this call is readable, whichever process made it.

        Raises: LogUnavailable when an open transaction blocks this for too long.
        """
        return await self.end(topic, partition)

    @abstractmethod
    async def offset_at(self, topic: str, partition: int, timestamp_ms: int) -> int:
        """Return the offset of the first record that is not older than a time, or the end."""

    @abstractmethod
    def reader(self, positions: Mapping[TopicPartition, int]) -> Reader:
        """Open a reader at these positions."""

    @abstractmethod
    async def seize(self, service: str, partition: int) -> Claim:
        """Claim a partition of a service now, fencing off its owner: for short operations by one writer.

        A running member of the service claims it back after some seconds.
        """

    @abstractmethod
    async def join(self, service: str, partitions: int, standbys: int = 0) -> Membership:
        """Join the members that run a service.

        Where a log distributes tasks over machines, `standbys` other members keep a standby copy of each.
        """

    async def owners(self, service: str) -> Mapping[int, str] | None:
        """Return the owner of each partition of a service, as text for people; None where a log does not know.

        A crashed owner may be listed until its partition is taken over.
        """
        del service
        return None

    async def keep_unarchived(self, ends: Mapping[TopicPartition, int] | None) -> bool:
        """Keep retention from dropping records from these ends on, as far as this log can; persistent. None ends that.

        A partition without an end keeps everything. Returns whether the log obeys: where others drop records (the
        brokers of a cluster), it cannot. Topic deletion and compaction are not restricted.
        """
        del ends
        return False

    @abstractmethod
    async def compact(self) -> None:
        """Apply retention and compaction now; the log also does this by itself from time to time.

        Guarantee: a compacted topic keeps the newest record of each key. A tombstone is dropped when it is older than
        TOMBSTONES_KEPT and was already its key's only record at an earlier compaction: a consumer that read an older
        value also reads the tombstone.
        """

    @abstractmethod
    async def close(self) -> None:
        """Close the log; claims that were not given back expire."""
