"""An owner: whoever has taken a service's partition over, and may append for it until somebody else does."""

import json
from collections.abc import Callable, Sequence

from eventlib.errors import OwnershipLost
from eventlib.log.kafka.cluster import Cluster
from eventlib.log.kafka.failures import Fenced, Undecided
from eventlib.log.kafka.groups import Group
from eventlib.log.kafka.looking import Written
from eventlib.log.kafka.producer import Producer
from eventlib.log.kafka.topics import OWNERS
from eventlib.log.port import Claim, Record
from eventlib.times import now_ms

Task = tuple[str, int]
"""A service, and the number of one of its partitions."""


Lost = Callable[["Owner", bool], None]
"""Hears of a claim that counts no more; whether that is because of somebody else."""


class Owner:
    """One claim, and the producer that stands for it.

    Taking over is starting a producer under the task's transactional id, which fences the former one, and then writing
    down who it is: the offset of that record is the claim's epoch. So epochs order claims, for good: the cluster's
    own ids and epochs of producers do not, once one has expired or come to its end.
    """

    def __init__(self, producer: Producer, claim: Claim, written: Written, lost: "Lost") -> None:
        self.claim = claim
        self.is_lost = False
        self._producer = producer
        self._written = written
        self._lost = lost
        self._group = Group(self._commit, f"commits of {claim.service}/{claim.partition}")

    async def append(self, records: Sequence[Record]) -> list[int]:
        """Append records in one transaction. Raises: OwnershipLost; what `Log.append` raises."""
        if self.is_lost:
            raise ownership_lost(self.claim)
        return await self._group.append(records)

    def lose(self, *, to_somebody: bool = True) -> None:
        """Let the claim count for nothing from now on."""
        if not self.is_lost:
            self.is_lost = True
            self._lost(self, to_somebody)

    async def close(self) -> None:
        """Stop, and fail what still waits."""
        self.is_lost = True
        await self._group.close()

    async def _commit(self, records: Sequence[Record]) -> list[int]:
        if self.is_lost:
            raise ownership_lost(self.claim)
        try:
            offsets = await self._producer.commit(records)
        except Fenced as error:
            self.lose(to_somebody=not isinstance(error, Undecided))
            raise ownership_lost(self.claim, str(error)) from error
        self._written.wrote(records, offsets)
        return offsets


async def take_over(cluster: Cluster, task: Task, largest: Callable[[str], int], written: Written, lost: Lost) -> Owner:
    """Become the owner of a task: whoever was it cannot append any more.

    Raises: OwnershipLost when somebody else does the same just now; LogUnavailable, LogDenied.
    """
    service, partition = task
    options = cluster.options
    name = f"{options.prefix}{options.application}-{service}-{partition}"
    producer = Producer(cluster, _lane(partition, options.connections), largest, name)
    content = json.dumps({"address": options.address, "at_ms": now_ms()}).encode()
    entry = Record(OWNERS.name, 0, -1, now_ms(), f"{service}/{partition}".encode(), content)
    try:
        await producer.start()
        (epoch,) = await producer.commit([entry])
    except Fenced as error:
        raise OwnershipLost(
            f"partition {partition} of service {service!r} was taken over by somebody else: {error}"
        ) from error
    written.wrote([entry], [epoch])
    return Owner(producer, Claim(service, partition, epoch + 1), written, lost)


def _lane(partition: int, connections: int) -> str:
    return f"write {partition % connections}"


def ownership_lost(claim: Claim, why: str = "it was given back, or taken over") -> OwnershipLost:
    """Return the refusal of an append under a claim that counts no more."""
    return OwnershipLost(
        f"partition {claim.partition} of service {claim.service!r} is not owned under epoch {claim.epoch} any more: {why}; "
        "drop what was worked out, and start over from the changelog when it is owned again"
    )
