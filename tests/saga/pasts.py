"""The pasts of keys, held to the states that were recorded live: whatever happened, both come to the same."""

import asyncio
from collections.abc import Iterable

from eventlib import EventLog, open_log
from eventlib.errors import UnknownKey
from eventlib.replay.key_history import key_history
from services import shop


def check_pasts(url: str, keys: Iterable[str]) -> int:
    """Check the pasts of these keys under every decider, and return how many steps they have. Raises: AssertionError."""
    return asyncio.run(_check(url, keys))


async def _check(url: str, keys: Iterable[str]) -> int:
    async with open_log(url, shop, read_only=True) as log:
        return sum([await _steps(log, decider, key) for key in keys for decider in (d.name for d in shop.deciders)])


async def _steps(log: EventLog, decider: str, key: str) -> int:
    try:
        past = await key_history(log, shop.decider(decider), key)
    except UnknownKey:
        return 0
    assert past.doubt == "", (decider, key, past.doubt)
    return len(past.steps)
