"""The letters of `examples.letters` with a post of their own, for tests that start processes."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

from eventlib import Choreography, OutcomeUnknown
from examples import letters


class FlakyPost:
    """A post that fails at first, quotes the address in its errors, and refuses some letters."""

    def __init__(self) -> None:
        self.delivered: dict[str, str] = {}
        self._failed: set[str] = set()

    async def deliver(self, letter_id: str, address: str) -> bool:
        await asyncio.sleep(0)
        if letter_id.endswith("7") and letter_id not in self._failed:
            self._failed.add(letter_id)
            raise OutcomeUnknown(f"nobody opens at {address}")
        self.delivered[letter_id] = address
        return not letter_id.endswith("9")


@asynccontextmanager
async def ports(_url: str) -> AsyncIterator[Mapping[str, object]]:
    yield {"post": FlakyPost()}


app = Choreography("letters", letters.app.services, ports=ports)
