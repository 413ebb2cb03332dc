"""Repeats what seizes partitions, until no other process takes them away meanwhile."""

from collections.abc import Awaitable, Callable
from typing import TypeVar

from tenacity import AsyncRetrying, retry_if_exception_type, stop_after_delay, wait_random_exponential

from eventlib.errors import OwnershipLost

T = TypeVar("T")

_PATIENCE_S, _LONGEST_PAUSE_S = 60.0, 2.0


async def seizing(attempt: Callable[[], Awaitable[T]]) -> T:
    """Return what an attempt returns that seizes partitions and appends; repeat it when another process takes one of them.

    Pauses are random, since each attempt ends the claims of the others, and grow until the attempts fit side by side.
    Raises: OwnershipLost when that has not helped for a minute; any other error of the attempt.
    """
    attempts = AsyncRetrying(
        retry=retry_if_exception_type(OwnershipLost),
        wait=wait_random_exponential(multiplier=0.02, max=_LONGEST_PAUSE_S),
        stop=stop_after_delay(_PATIENCE_S),
        reraise=True,
    )

    async def attempted() -> T:  # which Tenacity knows for a coroutine's function, as it does no lambda
        return await attempt()

    return await attempts(attempted)
