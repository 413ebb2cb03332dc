"""The memberships of a process on one log, and its ear for those who ask it to let a task go."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress

from eventlib.errors import EventlibError, LogUnavailable, Retryable
from eventlib.log.kafka.membership import KafkaMembership
from eventlib.log.kafka.owner import Owner
from eventlib.log.kafka.owners import Owners
from eventlib.log.kafka.register import wish_of
from eventlib.log.port import Reader

_READ_AT_ONCE = 100
_SEIZED_FOR_S = 3.0
_AGAIN_S = 1.0


class Members:
    """All memberships; `follow` opens a reader at the end of the register."""

    def __init__(self, owners: Owners, follow: Callable[[], Awaitable[Reader]]) -> None:
        self._owners = owners
        self._follow = follow
        self._members = list[KafkaMembership]()
        self._listening: asyncio.Task[None] | None = None
        owners.on_loss = self._lost

    async def join(self, service: str, partitions: int, standbys: int = 0) -> KafkaMembership:
        """See `Log.join`."""
        if self._listening is None:
            self._listening = asyncio.create_task(self._listen(), name="kafka wishes")
        member = KafkaMembership(self._owners, service, partitions, standbys)
        self._members.append(member)
        return member

    async def close(self) -> None:
        """Leave every group, and give everything back."""
        if self._listening is not None:
            self._listening.cancel()
            await asyncio.gather(self._listening, return_exceptions=True)
        error = LogUnavailable("the log was closed by this process; open it again to use it")
        await asyncio.gather(*(member.end(error) for member in self._members))

    def _lost(self, owner: Owner, to_somebody: bool) -> None:
        for member in self._members:
            member.lost(owner, _SEIZED_FOR_S if to_somebody else 0.0)

    async def _listen(self) -> None:
        while True:
            with suppress(Retryable):
                await self._listen_until_away()
            await asyncio.sleep(_AGAIN_S)

    async def _listen_until_away(self) -> None:
        """Follow the register. Raises: LogUnavailable, and what was written there meanwhile is not heard."""
        reader = await self._follow()
        try:
            while True:
                for record in await reader.poll(_READ_AT_ONCE):
                    wish = wish_of(record)
                    if wish is not None:
                        with suppress(EventlibError):  # who asks ends it after a while in any case
                            await self._owners.let_go(*wish)
        finally:
            await reader.close()
