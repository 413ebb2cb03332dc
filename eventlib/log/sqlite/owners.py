"""Partition ownership: claims in the file, kept alive by a heartbeat, and taken over when an owner is dead.

The first member of a service takes all its partitions; the others stand by. An owner on this machine is dead when its
process is gone; any other when its row did not change for a lease, by the observer's clock: no two clocks are compared.
Safety depends on neither: each commit checks the epoch of its claim.
"""

import asyncio
import sqlite3
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import NamedTuple

from eventlib.errors import EventlibError, RetryableError
from eventlib.ground.tasks import cancelled
from eventlib.log.base import Claim, Membership
from eventlib.log.processes import give_up, is_dead, is_seizer, new_owner
from eventlib.log.sqlite.errors import unavailable
from eventlib.log.sqlite.file import LogFile
from eventlib.log.sqlite.sealed import next_epoch, unread_name, write_meta, write_owner
from eventlib.log.sqlite.spare_beat import BEAT, SpareBeat
from eventlib.log.sqlite.state import OwnerRow

_READ_ALL = "DELETE FROM meta WHERE name = ?"
_LOOK_S = 0.25


class _Seen(NamedTuple):
    """A row, and since when it is unchanged (event loop time)."""

    row: OwnerRow
    since: float


class Owners:
    """The claims of this process on one log, kept alive by one heartbeat."""

    def __init__(self, file: LogFile, look_for_others: Callable[[], None]) -> None:
        self.file = file
        self._look_for_others = look_for_others
        self._members = list["SqliteMembership"]()
        self._seizer = new_owner(seizes=True)
        self._seen = dict[tuple[str, int], _Seen]()
        self._owners_moved = asyncio.Event()
        self._beating: asyncio.Task[None] | None = None
        self._spare: SpareBeat | None = None
        self._looked_at = 0.0
        file.listeners.owners_changed.append(self._owners_changed)

    @property
    def stands_by(self) -> bool:
        """Whether a member waits for partitions that other processes own."""
        return any(len(member.claims) < member.partitions for member in self._members)

    async def seize(self, service: str, partition: int) -> Claim:
        """See `Log.seize`."""
        return (await self._take(service, self._seizer, lambda: [partition]))[partition]

    async def join(self, service: str, partitions: int) -> "SqliteMembership":
        """See `Log.join`."""
        member = SqliteMembership(self, service, partitions, new_owner())
        self._members.append(member)
        try:
            await self.take_over(member)
        except BaseException:
            self._members.remove(member)
            give_up(member.owner)
            raise
        if self._beating is None:
            self._looked_at = asyncio.get_running_loop().time()
            self._beating = asyncio.create_task(self._beat(), name=f"heartbeat of {self.file.path.name}")
            self._spare = SpareBeat(self.file, self._alive, lambda: self._looked_at)
        return member

    async def leave(self, member: "SqliteMembership") -> None:
        """Give a member's claims back."""
        if member not in self._members:
            return
        self._members.remove(member)
        member.know({})

        def act(connection: sqlite3.Connection) -> None:
            for (service, partition), row in self.file.owners.items():
                if row.owner == member.owner:
                    write_owner(connection, Claim(service, partition, row.epoch + 1), "", row.seen_at)

        try:
            await self.file.write(act)
        finally:
            give_up(member.owner)
        self.file.learn_owners()

    async def take_over(self, member: "SqliteMembership") -> None:
        """Let a member claim the partitions without a live owner."""

        def free() -> list[int]:
            return [partition for partition in range(member.partitions) if self._is_free(member.service, partition)]

        if free():
            if not member.claims:
                member.beaten_at = asyncio.get_running_loop().time()
            await self._take(member.service, member.owner, free, member.lost_before)

    async def close(self) -> None:
        """Stop the heartbeat: from now on the claims count as a dead owner's."""
        if self._spare is not None:
            self._spare.stop()
        await cancelled(self._beating)
        for owner in [self._seizer, *(member.owner for member in self._members)]:
            give_up(owner)
        for member in self._members:
            member.fail(unavailable(self.file.path, "it was closed while its services were running"))

    async def _take(
        self, service: str, owner: str, wanted: Callable[[], Iterable[int]], lost_before: dict[int, Claim] | None = None
    ) -> dict[int, Claim]:
        def act(connection: sqlite3.Connection) -> dict[int, Claim]:
            claims = dict[int, Claim]()
            for partition in wanted():
                former = self.file.owners.get((service, partition))
                epoch = next_epoch(connection, self.file.owners, (service, partition))
                claims[partition] = Claim(service, partition, epoch)
                write_owner(connection, claims[partition], owner, self.file.options.clock())
                if lost_before is not None and former is not None and former.owner and not is_seizer(former.owner):
                    lost_before[partition] = claims[partition]
            return claims

        claims = await self.file.write(act)
        self.file.learn_owners()
        return claims

    def _is_free(self, service: str, partition: int) -> bool:
        row = self.file.owners.get((service, partition))
        if row is None or not row.owner or is_dead(row.owner):
            return True
        seen = self._seen.get((service, partition))
        now = asyncio.get_running_loop().time()
        if seen is None or seen.row != row:
            self._seen[service, partition] = _Seen(row, now)
            return False
        return not self._is_mine(row.owner) and now - seen.since >= self.file.options.lease_s

    def _is_mine(self, owner: str) -> bool:
        return any(member.owner == owner for member in self._members)

    def _owners_changed(self) -> None:
        self._owners_moved.set()  # what was given back is taken over at once
        for member in self._members:
            member.know(
                {
                    partition: Claim(service, partition, row.epoch)
                    for (service, partition), row in self.file.owners.items()
                    if row.owner == member.owner
                }
            )

    async def _beat(self) -> None:
        loop = asyncio.get_running_loop()
        beaten = loop.time()
        while True:
            self._looked_at = loop.time()
            try:
                if loop.time() - beaten >= self.file.options.heartbeat_s:
                    beaten = loop.time()
                    await self._beat_once()
                if self.stands_by:
                    await self._look_for_the_dead()
            except RetryableError:
                pass  # an append raises the same to its caller; the next beat retries
            except EventlibError as error:
                for member in self._members:
                    member.fail(error)
                return
            with suppress(TimeoutError):
                async with asyncio.timeout(min(_LOOK_S, self.file.options.heartbeat_s)):
                    await self._owners_moved.wait()
            self._owners_moved.clear()

    async def _beat_once(self) -> None:
        members, began = self._alive(), asyncio.get_running_loop().time()
        if members:
            values = [(self.file.options.clock(), member.owner) for member in members]
            unread = [each for member in members for each in member.unread()]

            def act(connection: sqlite3.Connection) -> None:
                connection.executemany(BEAT, values)
                write_meta(connection, {name: value for name, value in unread if value})
                connection.executemany(_READ_ALL, [(name,) for name, value in unread if not value])

            try:
                await self.file.write(act)
            except BaseException:
                for member in members:
                    member.forget_unread()
                raise
            for member in members:
                member.beaten_at = began

    def _alive(self) -> list["SqliteMembership"]:
        return [member for member in [*self._members] if member.claims]

    async def _look_for_the_dead(self) -> None:
        self._look_for_others()
        await self.file.refresh()
        for member in [*self._members]:
            if len(member.claims) < member.partitions:
                await self.take_over(member)


class SqliteMembership(Membership):
    """A member of a service in this process."""

    def __init__(self, owners: Owners, service: str, partitions: int, owner: str) -> None:
        self.service = service
        self.partitions = partitions
        self.owner = owner
        self.claims: Mapping[int, Claim] = {}
        self.beaten_at = float("-inf")
        """When (event loop time) the write began that last showed its claims as those of a live process."""
        self.lost_before = dict[int, Claim]()
        """The newest claim of each partition whose owner was lost before it."""
        self._owners = owners
        self._unread = dict[str, str]()
        self._change = asyncio.Event()
        self._error: EventlibError | None = None

    @property
    def held_until(self) -> float:
        """See `Membership.held_until`: others wait for a lease from when they saw the last beat."""
        return self.beaten_at + self._owners.file.options.lease_s

    def was_lost(self, claim: Claim) -> bool:
        """See `Membership.was_lost`."""
        return self.lost_before.get(claim.partition) == claim

    def unread(self) -> list[tuple[str, str]]:
        """Return where the service is, of topics whose retention would drop records, by name in the table meta.

        Only what has changed since the last call; an empty value where the retention need not wait.
        """
        file, found = self._owners.file, list[tuple[str, str]]()
        for place, offset in (self.progress() if self.progress is not None else {}).items():
            topic, state = file.topics.get(place[0]), file.partitions.get(place)
            if topic is None or state is None or (topic.retention is None and topic.retention_bytes is None):
                continue
            name, value = unread_name(self.service, state.number), str(offset) if self.holds_unread else ""
            if self._unread.get(name) != value:
                self._unread[name] = value
                found.append((name, value))
        return found

    def forget_unread(self) -> None:
        """Return all of it at the next call of `unread`: it was not written."""
        self._unread.clear()

    async def changed(self, held: Mapping[int, Claim]) -> Mapping[int, Claim]:
        """See `Membership.changed`."""
        while self.claims == held:
            if self._error is not None:
                raise self._error
            self._change.clear()
            await self._change.wait()
        return self.claims

    async def leave(self) -> None:
        """See `Membership.leave`."""
        await self._owners.leave(self)

    def know(self, claims: Mapping[int, Claim]) -> None:
        """Load the claims from the file."""
        self.claims = claims
        self._change.set()

    def fail(self, error: EventlibError) -> None:
        """Fail the waiting caller: the assignment will not change any more."""
        self._error = error
        self._change.set()
