"""A case that today's code decides otherwise than a revision of it does, which runs in a process of its own."""

import pickle
import subprocess
import sys
from collections.abc import Hashable, Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from dataclasses import fields
from datetime import datetime
from pathlib import Path
from typing import IO

from eventlib.errors import ContractError, EventlibError, TerminalError, WiringError
from eventlib.ground.short_process import look_for_cycles_seldom
from eventlib.model.event import Event
from eventlib.proof.cases import EVERY, Case, InputFilter, cases_of
from eventlib.proof.decided import Code
from eventlib.proof.revisions import Repository
from eventlib.proof.writing import Answer
from eventlib.replay.comparison import changes
from eventlib.replay.key_history import KeyHistory


class OtherCode:
    """A revision's code, and what it decides."""

    def __init__(self, name: str, asked: IO[bytes], answered: IO[bytes]) -> None:
        self.name = name
        self._asked = asked
        self._answered = answered

    def answer(self, case: Case) -> Answer:
        """Return what it makes of a case. Raises: WiringError when it has no such decider or event."""
        try:
            pickle.dump((case.decider.name, case.history, case.input, case.at), self._asked)
            self._asked.flush()
            found = pickle.load(self._answered)  # noqa: S301  our own process has written it
        except (EOFError, BrokenPipeError) as error:
            raise TerminalError(f"the process that runs the code of {self.name} has died") from error
        except (AttributeError, ImportError) as error:
            raise WiringError(f"{self.name} has what today's code has not: {error}") from error
        if isinstance(found, EventlibError):
            raise WiringError(f"{self.name}: {found}") from found
        assert isinstance(found, Answer)  # noqa: S101  that is what it answers
        return found

    def differs(self, case: Case) -> Hashable:
        """Return how today's code decides a case otherwise; empty if it does not."""
        now, then = _answer(case), self.answer(case)
        if (now.error, _types(now.emitted)) != (then.error, _types(then.emitted)):
            return now.error, _types(now.emitted), then.error, _types(then.emitted)
        emitted = (change.path for n, t in zip(now.emitted, then.emitted, strict=True) for change in changes(n, t))
        state = (change.path for change in changes(now.state, then.state))
        return tuple(emitted) or tuple(state) or tuple(changed_due(now, then))


def first_difference(history: KeyHistory, other: OtherCode, inputs: InputFilter = EVERY) -> Case:
    """Return the first call on such an input that today's code decides otherwise than a revision.

    One that emits the same and only leaves another state counts where none emits anything else; one on which the
    revision raises does not. Raises: ContractError when there is none.
    """
    found = list[Case]()
    for step, case in [*cases_of(history)][::-1]:
        if not inputs.has(step):
            continue
        now, then = _answer(case), other.answer(case)
        if not then.error and now != then:
            if _decides_otherwise(now, then):
                return case
            found.append(case)
    if found:
        return found[0]
    which = f"input {inputs.begin}" if inputs.begin else "every input"
    raise ContractError(
        f"today's code decides {which} of {history.decider.name} {history.key} as {other.name} does: `eventlib prove diff` "
        "shows which decisions differ, `eventlib prove in-flight` explores what effects do"
    )


def _decides_otherwise(now: Answer, then: Answer) -> bool:
    """Tell whether something else is emitted, or falls due although the state is the same."""
    return (now.error, now.emitted) != (then.error, then.emitted) or (now.state == then.state and now.due != then.due)


def changed_due(now: Answer, then: Answer) -> dict[str, datetime | None]:
    """Return the deadlines that a revision has otherwise, as it has them; None is one that is not due."""
    names = sorted({*now.due, *then.due})
    return {name: then.due.get(name) for name in names if now.due.get(name) != then.due.get(name)}


def what_is_right(case: Case, right: Answer) -> Answer:
    """Return what a revision makes of a case, as far as today's code does not: of its state and deadlines only what differs."""
    now = _answer(case)
    if (now.error, now.emitted) != (right.error, right.emitted):
        return Answer(right.emitted)
    if now.state == right.state:
        return Answer(right.emitted, due=changed_due(now, right))
    names = {change.path.partition(".")[0].partition("[")[0] for change in changes(now.state, right.state)}
    return Answer(right.emitted, {name: value for name, value in right.state.items() if name in names})


def _types(events: Sequence[Event]) -> tuple[str, ...]:
    return tuple(type(event).__name__ for event in events)


def _answer(case: Case) -> Answer:
    try:
        given = case.given()
        due = case.decider.due(given.state)
    except Exception as error:  # noqa: BLE001  whatever a handler raises is its answer
        return Answer(error=type(error).__name__)
    state = {each.name: getattr(given.state, each.name) for each in fields(given.state)}
    return Answer(tuple(given.emitted), state, due)


@contextmanager
def other_code(directory: Path, app: str | None, revision: str) -> Iterator[OtherCode]:
    """Run a revision's code for as long as it is needed. Raises: WiringError when there is none, or it cannot be imported."""
    with Repository(directory).code_of(revision) as laid_out:
        command = [
            sys.executable,
            "-P",
            "-c",
            f"from {__name__} import main; main()",
            str(laid_out),
            app or "",
            revision,
        ]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:  # noqa: S603
            assert process.stdin is not None  # noqa: S101  they are pipes
            assert process.stdout is not None  # noqa: S101  as above
            yield OtherCode(revision, process.stdin, process.stdout)


def main() -> None:
    """Answer what another process of this installation asks, until it ends."""
    look_for_cycles_seldom()
    asked, answered = sys.stdin.buffer, sys.stdout.buffer
    directory, app, name = sys.argv[1:]
    with redirect_stdout(sys.stderr):
        try:
            choreography = Code(Path(directory), app or None, name).load()
        except EventlibError as error:
            pickle.dump(WiringError(str(error)), answered)
            return
        while True:
            try:
                decider, history, given, at = pickle.load(asked)  # noqa: S301  our own process has written it
                answer: Answer | EventlibError = _answer(Case(choreography.decider(decider), history, given, at))
            except EOFError:
                return
            except (AttributeError, ImportError) as error:
                answer = WiringError(f"it has not what today's code has: {error}")
            except EventlibError as error:
                answer = WiringError(str(error))
            pickle.dump(answer, answered)
            answered.flush()
