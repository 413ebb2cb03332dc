"""The status of sagas, from the one decider that knows it: what an operator counts."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Generic, NamedTuple, TypeVar

from eventlib.model.decider import Decider

S = TypeVar("S")


class SagaState(NamedTuple):
    """The status of one saga: its name, whether it has ended, and whether it is overdue, or from when on (UTC)."""

    name: str
    has_ended: bool = False
    is_overdue: bool = False
    overdue_at: datetime | None = None

    def is_late(self, now: datetime) -> bool:
        """Return whether it is overdue at a time."""
        return self.is_overdue or (not self.has_ended and self.overdue_at is not None and self.overdue_at <= now)


@dataclass(frozen=True)
class SagaStates(Generic[S]):
    """The decider whose states give the status of sagas, and the pure function that returns it; None: not a saga yet."""

    decider: Decider[S]
    state_of: Callable[[S], SagaState | None]
