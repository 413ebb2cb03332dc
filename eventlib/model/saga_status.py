"""The status of sagas, from the one decider that knows it: what an operator counts."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeVar

from eventlib.model.decider import Decider

S = TypeVar("S")


class SagaState(NamedTuple):
    """The status of one saga: its name, whether the saga has ended, and whether it is overdue."""

    name: str
    has_ended: bool = False
    is_overdue: bool = False


@dataclass(frozen=True)
class SagaStates(Generic[S]):
    """The decider whose states give the status of sagas, and the pure function that returns it; None: not a saga yet."""

    decider: Decider[S]
    state_of: Callable[[S], SagaState | None]
