"""How sagas stand, told by the one decider that knows: what an operator counts."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeVar

from eventlib.model.decider import Decider

S = TypeVar("S")


class SagaState(NamedTuple):
    """How one saga stands: a word for it, whether it has ended, and whether it takes longer than it should."""

    name: str
    has_ended: bool = False
    is_overdue: bool = False


@dataclass(frozen=True)
class SagaStates(Generic[S]):
    """The decider whose states tell how sagas stand, and the pure function that says it; None for what is no saga yet."""

    decider: Decider[S]
    told_by: Callable[[S], SagaState | None]
