"""What the code of a directory decides on a recorded log, and which lines of it run for a decision."""

import asyncio
import pickle
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Concatenate, NamedTuple, ParamSpec, TypeVar

from eventlib.errors import EventlibError, WiringError
from eventlib.eventlog import EventLog
from eventlib.model.choreography import Choreography
from eventlib.model.project import load_choreography, nearest
from eventlib.opening import open_log
from eventlib.proof.elsewhere import elsewhere, refuse_other_code
from eventlib.proof.revisions import Lines, lines_run
from eventlib.proof.sharing import Told, Wanted, replay_in_processes
from eventlib.replay.debugging import decisions_about
from eventlib.replay.report import Difference, Report
from eventlib.runtime.records import modules_version

P = ParamSpec("P")
T = TypeVar("T")


class Decided(NamedTuple):
    """What came of deciding a log: the report, and a fingerprint of the code of each effect, which is not run."""

    report: Report
    effects: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Code:
    """The application's code in a directory, and its name for messages."""

    directory: Path
    app: str | None
    name: str

    def decide(self, url: str, wanted: Wanted, place: Path) -> Decided:
        """Decide a log's inputs by this code; every difference from what was recorded is written into `place`.

        Raises: as `eventlib.replay.replay` does; WiringError when the code cannot be imported.
        """
        return self.run(_decide, url, replace(wanted, limit=0), place)

    def lines(self, url: str, decisions: Sequence[Difference]) -> list[Lines]:
        """Return the lines of this code that run for some decisions; none for those that cannot be run again."""
        return self.run(_lines, url, [*decisions])

    def load(self) -> Choreography:
        """Import it. Raises: WiringError when that fails, or something else was imported."""
        if (self.directory / "src").is_dir():
            sys.path.insert(0, str(self.directory / "src"))
        found = load_choreography(self.app, self.directory)
        app = self.app or nearest(self.directory)[1] or ""
        refuse_other_code(self.directory, app.partition(":")[0])
        return found

    def run(self, call: Callable[Concatenate["Code", P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Call a function of this library with this code, in a process that may import it.

        Raises: WiringError with the code's name, for what the function raises.
        """
        try:
            return elsewhere(call, self, *args, **kwargs)
        except EventlibError as error:
            raise WiringError(f"{self.name}: {error}") from error


def differences_in(place: Path) -> Iterator[Difference]:
    """Yield the differences that were written, in no order."""
    for file in sorted(place.iterdir()):
        with file.open("rb") as written, suppress(EOFError):
            while True:
                yield pickle.load(written)  # noqa: S301  our own process has written it


def _decide(code: Code, url: str, wanted: Wanted, place: Path) -> Decided:
    choreography = code.load()
    for name in wanted.services or ():
        choreography.service(name)

    @contextmanager
    def telling(index: int) -> Iterator[Told]:
        with (place / f"{index:03}").open("wb") as out:
            yield lambda difference: pickle.dump(difference, out)

    with redirect_stdout(sys.stderr):
        report = replay_in_processes(url, choreography, wanted, telling)
    return Decided(report, _effects(choreography, wanted.services))


def _effects(choreography: Choreography, services: Sequence[str] | None) -> dict[str, str]:
    return {
        f"{service.name}/{decider.name} for {request.__name__}": modules_version([effect.ask.call.__module__])
        for service in choreography.services
        if not services or service.name in services
        for decider in service.deciders
        for request, effect in decider.effects.items()
    }


def _lines(code: Code, url: str, decisions: Sequence[Difference]) -> list[Lines]:
    choreography, place = code.load(), code.directory.resolve()

    async def asked() -> list[Lines]:
        async with open_log(url, choreography, read_only=True) as log:
            return [await _lines_run(log, each, place) for each in decisions]

    with redirect_stdout(sys.stderr):
        return asyncio.run(asked())


async def _lines_run(log: EventLog, decided: Difference, directory: Path) -> Lines:
    """Return the lines of the application that run for a decision, and for the state that it was made in.

    Pure code can be run again. Empty when that is not possible, as for an input that no handler takes any more.
    """
    with lines_run(directory) as found, suppress(Exception):  # what it raises is the difference
        for each in await decisions_about(log, decided.key, decided.input.cause, decided.decider):
            each.handler.call(*each.arguments)
    return {name: frozenset(lines) for name, lines in found.items()}
