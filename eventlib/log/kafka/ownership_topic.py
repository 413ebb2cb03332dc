"""The ownership topic: which producer owns which task, since when, and where its log began."""

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from eventlib.errors import LogUnavailable, OwnershipLost
from eventlib.log.base import Claim
from eventlib.log.kafka.client import Cluster
from eventlib.log.kafka.failures import Fenced
from eventlib.log.kafka.partition_fetcher import LATEST, offsets_at
from eventlib.log.kafka.point_reads import PointReads
from eventlib.log.kafka.topic_configs import OWNERS
from eventlib.log.kafka.writer import Writer
from eventlib.model.record import Record
from eventlib.values import now_ms

Task = tuple[str, int]
"""A service, and the number of one of its partitions."""

PLACE = (OWNERS.name, 0)
_WISH = "wish:"
_READ_AT_ONCE = 1_000
_PAUSE_S = 0.003


class OwnershipEntry(NamedTuple):
    """A task's newest owner: its epoch, its writer (None: released), and its address.

    An owner that seized it for a short operation ignores release requests.
    """

    epoch: int
    writer: str | None
    address: str
    is_seized: bool


class Register:
    """The ownership topic as read so far."""

    def __init__(self, cluster: Cluster, point_reads: PointReads) -> None:
        self._cluster = cluster
        self._point_reads = point_reads
        self._entries = dict[Task, OwnershipEntry]()
        self._position = 0
        self._reading: asyncio.Task[None] | None = None
        self._next: asyncio.Task[None] | None = None

    def owner(self, task: Task) -> OwnershipEntry | None:
        """Return a task's newest owner; None when it never had one."""
        return self._entries.get(task)

    def owners(self, service: str) -> Mapping[int, str]:
        """Return the writer of each task of a service that has one."""
        found = {task[1]: entry.writer for task, entry in self._entries.items() if task[0] == service}
        return {partition: writer for partition, writer in found.items() if writer is not None}

    async def refresh(self) -> None:
        """Read everything decided before this call. Raises: LogUnavailable when an open transaction blocks it.

        Callers that arrive during a read share the next one.
        """
        if self._next is None:
            self._next = asyncio.create_task(self._read_after(self._reading), name="register of owners")
        await asyncio.shield(self._next)

    async def _read_after(self, reading: "asyncio.Task[None] | None") -> None:
        if reading is not None:
            await asyncio.wait([reading])
        self._reading, self._next = self._next, None
        await self._read_all()

    async def _read_all(self) -> None:
        within_s = self._cluster.options.append_timeout_s
        end = (await offsets_at(self._cluster, [PLACE], LATEST, committed=False))[PLACE]
        deadline = asyncio.get_running_loop().time() + within_s
        while True:
            decided = (await offsets_at(self._cluster, [PLACE], LATEST))[PLACE]
            while records := await self._point_reads.read(PLACE, self._position, _READ_AT_ONCE):
                for record in records:
                    self._learn(record)
                self._position = records[-1].offset + 1
            if decided >= end:
                return
            if asyncio.get_running_loop().time() > deadline:
                raise LogUnavailable(f"the ownership topic cannot be read to its end within {within_s:g} seconds")
            await asyncio.sleep(_PAUSE_S)

    def _learn(self, record: Record) -> None:
        key, content = (record.key or b"").decode(), json.loads(record.value or b"{}")
        if key.startswith(_WISH):
            return
        task = task_of(key)
        known = self._entries.get(task)
        if "released" not in content:
            self._entries[task] = OwnershipEntry(
                record.offset + 1, content["writer"], content["address"], content.get("seized", False)
            )
        elif known is not None and known.epoch == content["released"]:
            self._entries[task] = known._replace(writer=None)


def claim_record(task: Task, writer: str, address: str, *, seized: bool) -> Record:
    """Return the record that makes a writer a task's owner; its offset, plus one, is the epoch."""
    return _record(_key(task), {"writer": writer, "address": address, "seized": seized})


def release_record(task: Task, epoch: int) -> Record:
    """Return the record with which the owner of an epoch releases its task."""
    return _record(_key(task), {"released": epoch})


def release_request(task: Task, epoch: int) -> Record:
    """Return the record that asks the owner of an epoch to release its task."""
    return _record(_WISH + _key(task), {"epoch": epoch})


def release_request_of(record: Record) -> tuple[Task, int] | None:
    """Return the task and epoch of a release request; None for any other record."""
    key = (record.key or b"").decode()
    if not key.startswith(_WISH):
        return None
    return task_of(key.removeprefix(_WISH)), json.loads(record.value or b"{}")["epoch"]


def task_of(key: str) -> Task:
    """Return the task of a key of the ownership topic."""
    service, _, partition = key.rpartition("/")
    return service, int(partition)


def _key(task: Task) -> str:
    return f"{task[0]}/{task[1]}"


def _record(key: str, content: Mapping[str, object]) -> Record:
    value = json.dumps({**content, "at_ms": now_ms()}).encode()
    return Record(*PLACE, -1, now_ms(), key.encode(), value)


class Owner:
    """One claim, and the writer that commits for it.

    `on_loss` is called when the claim is lost, with whether another owner ended it. `was_lost_before`: the owner before it
    did not let go.
    """

    def __init__(self, claim: Claim, writer: Writer, on_loss: Callable[["Owner", bool], None]) -> None:
        self.claim = claim
        self.writer = writer
        self.is_lost = False
        self.was_lost_before = False
        self._on_loss = on_loss
        self._under_way = set[asyncio.Future[Any]]()

    async def append(self, records: Sequence[Record]) -> list[int]:
        """Append records in one transaction. Raises: OwnershipLost; what `Log.append` raises."""
        if self.is_lost:
            raise ownership_lost(self.claim)
        appending = self.writer.append(records)
        self._under_way.add(appending)
        appending.add_done_callback(self._under_way.discard)
        try:
            # Shielded: `finish` must know when it is over, also if this caller is cancelled.
            return await asyncio.shield(appending)
        except Fenced as error:
            raise ownership_lost(self.claim, str(error)) from error

    def hold(self, under_way: "asyncio.Future[None]") -> None:
        """Register an in-flight transaction that includes this claim."""
        self._under_way.add(under_way)
        under_way.add_done_callback(self._under_way.discard)

    def lose(self, *, to_another: bool = True) -> None:
        """Invalidate the claim."""
        if not self.is_lost:
            self.is_lost = True
            self._on_loss(self, to_another)

    async def finish(self) -> None:
        """Accept no more appends, and wait for those in flight."""
        self.is_lost = True
        await asyncio.gather(*self._under_way, return_exceptions=True)


def ownership_lost(claim: Claim, why: str = "it was given back, or taken over") -> OwnershipLost:
    """Return the error for an append under an invalid claim."""
    return OwnershipLost(
        f"partition {claim.partition} of service {claim.service!r} is not owned under epoch {claim.epoch} any more: {why}; "
        "discard its state, and restore it from the changelog when it is owned again"
    )
