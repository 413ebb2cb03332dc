"""How much work waits for a service: what is on the log, and what this process is adding to it."""

from dataclasses import dataclass
from time import monotonic
from typing import Any

from eventlib.queries.saga_index import SagaIndex

_COUNTED_FOR_S = 0.02


@dataclass(slots=True, eq=False)
class Admitted:
    """A request that was admitted: its work, where it is on the log, and how much of it the last count has left out."""

    work: int
    at: tuple[int, int] | None = None
    uncounted: int = 0


class WaitingWork:
    """The work of a topic's requests that are not decided, as far as this process knows.

    Guarantee: what this process has admitted counts at once, on whichever side of the index it is.
    """

    def __init__(self, index: SagaIndex[Any], topic: str) -> None:
        self._index = index
        self._topic = topic
        self._admitted = dict[Admitted, None]()
        self._waiting = 0
        self._counted_at = float("-inf")

    async def now(self) -> int:
        """Return the work that waits, some milliseconds old. Raises: LogUnavailable."""
        if monotonic() - self._counted_at >= _COUNTED_FOR_S:
            on_log = [each for each in self._admitted if each.at is not None]
            count, self._counted_at = await self._index.backlog(self._topic), monotonic()
            self._waiting = count
            for each in on_log:
                each.uncounted = each.work - 1  # the index counts what it has not read as one
                if self._has_read(*(each.at or (0, 0))):
                    self._admitted.pop(each, None)
        return self._waiting + sum(each.uncounted for each in self._admitted)

    def admit(self, work: int) -> Admitted:
        """Count a request that is about to be put on the log; `at` of what is returned is where it is then."""
        admitted = Admitted(work, uncounted=work)
        self._admitted[admitted] = None
        return admitted

    def withdraw(self, admitted: Admitted) -> None:
        """Forget a request that was not put on the log."""
        self._admitted.pop(admitted, None)

    def _has_read(self, partition: int, offset: int) -> bool:
        if self._topic in self._index.view.inputs:
            return self._index.positions.get((self._topic, partition), 0) > offset
        return self._index.handled(self._topic, partition) > offset
