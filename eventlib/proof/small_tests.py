"""A decision that goes wrong on a log, as a small test: of what raises today, or of what a revision decides otherwise."""

from collections.abc import Callable, Hashable
from typing import NamedTuple

from eventlib.proof.against import OtherCode, first_difference, what_is_right
from eventlib.proof.cases import EVERY, Case, InputFilter, failing_case, how_it_fails
from eventlib.proof.shrinking import shrunk
from eventlib.proof.writing import as_test
from eventlib.replay.key_history import KeyHistory
from eventlib.values import escaped


class SmallTest(NamedTuple):
    """A test's source, and how many events its case had on the log, and has."""

    text: str
    many: int
    few: int


class Shrinking(NamedTuple):
    """How a decision is made small: what it is called with on the command line, and whether it stays as it is."""

    named: str
    as_it_is: bool = False

    def small(self, case: Case, how: Callable[[Case], Hashable]) -> Case:
        """Return the smallest case that goes wrong in the same way, or the case."""
        return case if self.as_it_is else shrunk(case, how)

    def title(self, what: str, options: str = "") -> str:
        """Return the first line of a test: what happened on a log, and the command that has written it."""
        command = f"eventlib history {self.named} --as-test" if self.as_it_is else f"eventlib prove shrink {self.named}"
        return f"{what} on a log: `{command}{options}`."


def of_failure(history: KeyHistory, inputs: InputFilter = EVERY, shrinking: Shrinking | None = None) -> SmallTest:
    """Return a test of the newest of some inputs on which today's code raises. Raises: ContractError for none."""
    case, failure, message = failing_case(history, inputs)
    shrinking = shrinking or _named(history)
    small = shrinking.small(case, how_it_fails)
    found = small.failure()
    told = message if found is None else found[1]
    why = f"It raised {failure.error} in {failure.function}: {escaped(told)}".replace("\\", "\\\\").rstrip(".")
    text = as_test(small, shrinking.title("What failed"), why.replace('"', "'") + ".")
    return SmallTest(text, len(case.events), len(small.events))


def of_difference(
    history: KeyHistory, other: OtherCode, inputs: InputFilter = EVERY, shrinking: Shrinking | None = None
) -> SmallTest:
    """Return a test of the first of some inputs that a revision decides otherwise. Raises: ContractError for none."""
    case = first_difference(history, other, inputs)
    shrinking = shrinking or _named(history)
    small = shrinking.small(case, other.differs)
    title = shrinking.title("What was decided wrongly", f" --against {other.name}")
    text = as_test(small, title, f"It decides as {other.name} does.", what_is_right(small, other.answer(small)))
    return SmallTest(text, len(case.events), len(small.events))


def _named(history: KeyHistory) -> Shrinking:
    return Shrinking(f"{history.decider.name} {history.key}")
