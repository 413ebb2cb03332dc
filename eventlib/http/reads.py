"""Reads with their age: positions that a client hands on, ages, and waits that it prefers."""

import asyncio
import re
from collections.abc import Callable
from contextlib import suppress
from typing import Annotated, Any

from fastapi import Header, Query, Request

from eventlib.errors import EventlibError
from eventlib.http.config import ApiConfig
from eventlib.http.problems import index_behind, refused_field, try_later
from eventlib.queries.state_index import StateIndex

_WAIT = re.compile(r"""(?:^|,)\s*wait\s*=\s*"?([0-9]{1,9})"?\s*(?=[;,]|$)""", re.IGNORECASE)
POSITION = r"^[0-9]{1,6}-[0-9]{1,15}(-[0-9]{1,15})?$"
"""What a position's text matches."""

MinPosition = Annotated[
    str | None,
    Query(
        alias="min_position",
        pattern=POSITION,
        description="The `position` of an answer: the read waits until it shows at least what that answer showed.",
        examples=["3-17"],
    ),
]
Prefer = Annotated[
    list[str] | None,
    Header(
        alias="Prefer",
        description="RFC 7240: with `wait=5` the answer comes when the saga has ended, or after 5 seconds.",
    ),
]
PREFERENCE_APPLIED = {
    "Preference-Applied": {"description": "`wait=…`, when it was asked for.", "schema": {"type": "string"}}
}
HOW_CURRENT = {
    "Staleness-Ms": {
        "description": "All that was on the log so many milliseconds ago is in this answer.",
        "schema": {"type": "integer"},
    },
    "Damaged-Records": {
        "description": "So many records are damaged on the log, and their content may be missing from this answer.",
        "schema": {"type": "integer"},
    },
}


class Reads:
    """How current an index is, for those who read it over HTTP; `topic` is where requests stand."""

    def __init__(self, index: StateIndex[Any], topic: str, config: ApiConfig) -> None:
        self._index = index
        self._topic = topic
        self._config = config

    def position(self, key: str) -> str:
        """Return how far this instance is with a key: its partition, its owner's last request, and its changelog."""
        partition = self._index.partition_of(key)
        changes = self._index.positions.get((self._index.changelog, partition), 0)
        return f"{partition}-{self._index.handled(self._topic, partition) - 1}-{changes}"

    async def wait_for(self, position: str | None) -> None:
        """Wait until this instance is as far as a position, which an answer of any instance has.

        `3-17` is that of a request, and is reached when that is decided; `3-17-2042` is that of a read, and of what
        the owner had written by then. Raises: Refusal.
        """
        if position is None:
            return
        partition, offset, *seen = map(int, position.split("-"))
        changes = seen[0] if seen else 0
        log, changelog = self._index.log.port, self._index.changelog
        async with asyncio.timeout(self._config.decision_s):
            topic = (await log.topics())[self._topic]
            was_given = (
                partition < topic.partitions
                and offset < await log.decided_end(self._topic, partition)
                and changes <= await log.decided_end(changelog, partition)
            )
        if not was_given:
            raise refused_field("query", "min_position", "is no position that this API has given")
        is_there = await self._index.decided(self._topic, partition, offset, self._config.decision_s)
        if changes and is_there:
            is_there = await self._index.reached(changelog, partition, changes - 1, self._config.decision_s)
        if not is_there:
            raise try_later("not-decided-yet", f"what stands at {position} is not decided yet, or not read here")

    async def how_current(self) -> dict[str, str]:
        """Return the headers with how old an answer is at most, and what it may lack; ask before it is made."""
        damaged = {"Damaged-Records": str(len(self._index.damaged))} if self._index.damaged else {}
        return {"Staleness-Ms": str(int(await self._index.age_s() * 1000)), **damaged}

    async def refuse_if_old(self) -> None:
        """Keep a client from taking what is not listed for what is not there. Raises: Refusal when the index is too old for that."""
        if not await self._index.is_younger(self._config.index_age_s, self._config.decision_s):
            raise index_behind(self._config.index_age_s)

    async def preferred(self, request: Request, key: str, met: Callable[[], bool]) -> dict[str, str]:
        """Wait until `met()` for a key if `Prefer: wait=…` asks for that, and return its header."""
        wait = _WAIT.search(", ".join(request.headers.getlist("prefer")))
        if wait is None:
            return {}
        with suppress(EventlibError):  # what was accepted is answered, whatever becomes of the index
            await self._index.until(key, met, min(float(wait[1]), self._config.longest_wait_s))
        return {"Preference-Applied": f"wait={int(wait[1])}"}
