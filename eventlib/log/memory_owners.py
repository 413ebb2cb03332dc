"""Ownership on an in-memory log: claims, and the members in this process."""

import asyncio
from collections.abc import Mapping

from eventlib.log.base import Claim, Membership
from eventlib.log.rules import ownership_lost

_SEIZED_FOR_S = 3.0


class MemoryOwners:
    """The partition owners of each service: the first member owns all, the others stand by."""

    def __init__(self) -> None:
        self._epochs = dict[tuple[str, int], int]()
        self._seized = set[tuple[str, int]]()
        self._members = dict[str, list["_MemoryMembership"]]()

    def forked(self) -> "MemoryOwners":
        """Return a copy of the claims, without members, for a forked log."""
        made = MemoryOwners()
        made._epochs = self._epochs.copy()
        return made

    def check(self, claim: Claim) -> None:
        """Refuse an append with a claim that is not the newest. Raises: OwnershipLost."""
        newest = self._epochs.get((claim.service, claim.partition), 0)
        if claim.epoch != newest:
            raise ownership_lost(claim, newest)

    def seize(self, service: str, partition: int) -> Claim:
        """See `Log.seize`."""
        claim = self.claim(service, partition)
        for member in self._members.get(service, []):
            member.lose(partition)
        self._seized.add((service, partition))
        asyncio.get_running_loop().call_later(_SEIZED_FOR_S, self._give_back, claim)
        return claim

    def join(self, service: str, partitions: int) -> "_MemoryMembership":
        """See `Log.join`."""
        member = _MemoryMembership(self, service, partitions)
        self._members.setdefault(service, []).append(member)
        self._assign(service)
        return member

    def leave(self, member: "_MemoryMembership") -> None:
        """Give a leaving member's claims to the next member."""
        if member in self._members[member.service]:
            self._members[member.service].remove(member)
            for partition in [*member.claims]:
                self.claim(member.service, partition)  # unowned, but it fences off the claim given back
                member.lose(partition)
            self._assign(member.service)

    def claim(self, service: str, partition: int) -> Claim:
        """Return a new claim on a partition, which fences off the earlier ones."""
        epoch = self._epochs.get((service, partition), 0) + 1
        self._epochs[service, partition] = epoch
        return Claim(service, partition, epoch)

    def _give_back(self, claim: Claim) -> None:
        if self._epochs[claim.service, claim.partition] == claim.epoch:
            self._seized.discard((claim.service, claim.partition))
            self._assign(claim.service)

    def _assign(self, service: str) -> None:
        owned = {partition for member in self._members.get(service, []) for partition in member.claims}
        for member in self._members.get(service, []):
            for partition in range(member.partitions):
                if partition not in owned and (service, partition) not in self._seized:
                    owned.add(partition)
                    member.win(self.claim(service, partition))


class _MemoryMembership(Membership):
    """A member in this process."""

    def __init__(self, owners: MemoryOwners, service: str, partitions: int) -> None:
        self.service = service
        self.partitions = partitions
        self.claims = dict[int, Claim]()
        self._owners = owners
        self._change = asyncio.Event()

    async def changed(self, held: Mapping[int, Claim]) -> Mapping[int, Claim]:
        """See `Membership.changed`."""
        while self.claims == held:
            self._change.clear()
            await self._change.wait()
        return dict(self.claims)

    async def leave(self) -> None:
        """See `Membership.leave`."""
        self._owners.leave(self)

    def win(self, claim: Claim) -> None:
        """Add a claim to the member."""
        self.claims[claim.partition] = claim
        self._change.set()

    def lose(self, partition: int) -> None:
        """Remove a claim from the member."""
        if self.claims.pop(partition, None) is not None:
            self._change.set()
