"""An owner: whoever has taken a task over, and may append for it until somebody else does."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from eventlib.errors import OwnershipLost
from eventlib.log.kafka.failures import Fenced
from eventlib.log.kafka.writer import Writer
from eventlib.log.port import Claim, Record


class Owner:
    """One claim, and the writer that commits for it.

    `on_loss` is called when the claim counts no more, with whether somebody else has ended it.
    """

    def __init__(self, claim: Claim, writer: Writer, on_loss: Callable[["Owner", bool], None]) -> None:
        self.claim = claim
        self.writer = writer
        self.is_lost = False
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
            # Shielded, since `finish` has to know when it is over, also when nobody waits for it any more.
            return await asyncio.shield(appending)
        except Fenced as error:
            raise ownership_lost(self.claim, str(error)) from error

    def hold(self, under_way: "asyncio.Future[None]") -> None:
        """Take note of a transaction that this claim is part of."""
        self._under_way.add(under_way)
        under_way.add_done_callback(self._under_way.discard)

    def lose(self, *, to_somebody: bool = True) -> None:
        """Let the claim count for nothing from now on."""
        if not self.is_lost:
            self.is_lost = True
            self._on_loss(self, to_somebody)

    async def finish(self) -> None:
        """Take no more appends, and wait for those that are under way."""
        self.is_lost = True
        await asyncio.gather(*self._under_way, return_exceptions=True)


def ownership_lost(claim: Claim, why: str = "it was given back, or taken over") -> OwnershipLost:
    """Return the refusal of an append under a claim that counts no more."""
    return OwnershipLost(
        f"partition {claim.partition} of service {claim.service!r} is not owned under epoch {claim.epoch} any more: {why}; "
        "drop what was worked out, and start over from the changelog when it is owned again"
    )
