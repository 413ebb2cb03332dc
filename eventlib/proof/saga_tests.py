"""Which decision of a saga goes wrong first, whichever decider has made it, as a small test."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TypeVar

from eventlib.errors import ContractError, UnknownKey
from eventlib.eventlog import EventLog
from eventlib.model.event import contract_of
from eventlib.model.record import key_text
from eventlib.model.saga import Saga
from eventlib.proof.against import OtherCode, first_difference
from eventlib.proof.cases import EVERY, Case, InputFilter, failing_case, recorded_case
from eventlib.proof.invariant_tests import BreakingCase, breaking_case
from eventlib.proof.small_tests import Shrinking, SmallTest, of_difference, of_failure
from eventlib.proof.writing import Answer, as_test
from eventlib.queries.sagas import find_saga
from eventlib.replay.key_history import KeyHistory, key_history

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class SagaHistories:
    """A saga, and the histories of all keys that decided it; of a key of its own every input counts, of others only its own."""

    saga: Saga
    histories: Sequence[tuple[KeyHistory, InputFilter]]
    breaking: BreakingCase

    @classmethod
    async def read(cls, log: EventLog, key: str) -> "SagaHistories":
        """Read them. Raises: ContractError when no event has this key."""
        saga, found = await find_saga(log, key), list[tuple[KeyHistory, InputFilter]]()
        ids = frozenset(each.record.event_id for each in saga.events)
        handled = {
            (decider.name, contract_of(event).type)
            for decider in log.choreography.deciders
            for event in decider.handlers
        }
        keys = dict.fromkeys(
            (decider.name, key_text(each.record))
            for each in saga.events
            for decider in log.choreography.deciders
            if (decider.name, each.type) in handled
        )
        for name, of in keys:
            with suppress(UnknownKey):
                history = await key_history(log, log.choreography.decider(name), of)
                found.append((history, EVERY if of == key else InputFilter(among=ids)))
        if not found:
            raise ContractError(
                f"no decider has handled anything of {key} yet: `eventlib saga {key}` shows what is there"
            )
        return cls(saga, found, await breaking_case(log, saga, found))

    def small_test(self, other: OtherCode | None = None) -> SmallTest:
        """Return a test of the first input that a revision decides otherwise; without one, of the first on which today's code raises.

        Raises: ContractError when there is none.
        """
        if other is None:
            return self._failure(Shrinking(self.saga.key))
        history, inputs = self._first(lambda history, inputs: first_difference(history, other, inputs))
        return of_difference(history, other, inputs, Shrinking(self.saga.key))

    def recorded_test(self) -> str:
        """Return a test of the first input on which today's code raises, as it was; of the newest decision if there is none.

        Raises: ContractError when today's code decides nothing as it was recorded.
        """
        shrinking = Shrinking(self.saga.key, as_it_is=True)
        with suppress(ContractError):
            return self._failure(shrinking).text
        newest = [
            (found[0].at, found)
            for history, inputs in self.histories
            for found in _tried(recorded_case, history, inputs)
        ]
        if not newest:
            raise ContractError(
                f"today's code decides nothing of {self.saga.key} as it was recorded: `eventlib replay` shows it"
            )
        _, (case, decided) = max(newest, key=lambda each: each[0])
        return as_test(case, shrinking.title("What was decided"), "It decides as it did.", Answer(decided))

    def _failure(self, shrinking: Shrinking) -> SmallTest:
        return of_failure(*self._first(lambda history, inputs: failing_case(history, inputs)[0]), shrinking)

    def _first(self, find: Callable[[KeyHistory, InputFilter], Case]) -> tuple[KeyHistory, InputFilter]:
        """Return the history in which something is found first. Raises: ContractError when it is in none."""
        found = [(case.at, n) for n, each in enumerate(self.histories) for case in _tried(find, *each)]
        if not found:
            key = self.saga.key
            raise ContractError(
                f"nothing of {key} goes wrong here: give a revision that decides rightly, `eventlib prove shrink {key} --against "
                f"REVISION`; `eventlib history {key} --as-test` writes a test of what was decided"
            )
        return self.histories[min(found)[1]]


def _tried(find: Callable[[KeyHistory, InputFilter], T], history: KeyHistory, inputs: InputFilter) -> Iterator[T]:
    with suppress(ContractError):
        yield find(history, inputs)
