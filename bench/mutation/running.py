"""One process that has collected the tests, and forks one that ends soon for each mutant and each detector."""

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from itertools import accumulate
from pathlib import Path

import pytest

from bench.mutation import detectors
from bench.mutation.broker import broker_for, needs_broker
from bench.mutation.detectors import Detector
from bench.mutation.forks import Ended, Forks
from bench.mutation.measuring import LONGEST_S, Measuring
from bench.mutation.mutants import Mutant
from bench.mutation.planting import Loaded
from bench.mutation.reach import Lines
from bench.mutation.results import BROKER, Result, Results

_NEXT_TO_NOTHING_MS = 200
_PATIENCE_S = 30
"""So many seconds of the clock a test may take besides what it takes: the machine does other things.

Times `_LIKE_NEW` that is more than what tests wait for at most, so that one that waits in vain fails by its own limit.
"""
_LIKE_NEW = 5
"""A mutant may take so many times what the program takes, and as many seconds more, before it counts as noticed."""
_TESTS: Mapping[str, Callable[[pytest.Item], bool]] = {
    "tests": lambda item: item.get_closest_marker("heavy") is None,
    BROKER: needs_broker,
}
Elsewhere = Callable[[Mutant, Sequence[str], Sequence[str]], None]


@dataclass(frozen=True)
class Options:
    """What is tried on which mutants, all of which are in `lines`; `planted` is in this process already.

    What runs where is kept in `reach`. `minutes` end a run, which goes on another time; of the tests that reach a mutant,
    those that take least are run, up to `seconds` of CPU in all.
    """

    mutants: Sequence[Mutant]
    lines: Lines
    reach: Path
    detectors: Sequence[str]
    processes: int = 2
    minutes: float | None = None
    seconds: float | None = None
    planted: Mutant | None = None


class Run:
    """A plugin of pytest, which tries mutants instead of running the tests. `elsewhere` lets another process do so."""

    def __init__(self, options: Options, results: Results, elsewhere: Elsewhere) -> None:
        self._options = options
        self._results = results
        self._elsewhere = elsewhere
        self._forks = Forks(options.processes)
        self._ends_at = None if options.minutes is None else time.monotonic() + 60 * options.minutes

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Try the mutants."""
        makers: Mapping[str, Callable[[], Detector]] = {
            "corpus": detectors.Corpora,
            "proof": detectors.Proof,
            "simulator": detectors.Simulator,
        }
        try:
            self._tests = {
                name: {item.nodeid: item for item in session.items if belongs(item)}
                for name, belongs in _TESTS.items()
                if name in self._options.detectors
            }
            if self._options.planted is not None and session.testsfailed:
                self._all_notice("the module, or tests of it, cannot be imported")
                return True
            try:
                self._detectors = {name: makers[name]() for name in self._options.detectors if name in makers}
            except Exception as error:
                if self._options.planted is None:
                    raise
                self._all_notice(f"{type(error).__name__}: {error}")
                return True
            with broker_for(session) if BROKER in self._tests else nullcontext():
                items = [item for tests in self._tests.values() for item in tests.values()]
                measuring = Measuring(self._options.reach, self._options.lines, self._forks, self._detectors)
                self._reach = measuring.of(items, is_planted=self._options.planted is not None)
                self._loaded = Loaded()
                self._try_all()
        finally:
            self._forks.end()
        return True

    def _all_notice(self, why: str) -> None:
        assert self._options.planted is not None
        for detector in self._options.detectors:
            self._add(self._options.planted, detector, Result("", "", detector, caught=True, by=why[:200]))

    def _try_all(self) -> None:
        """Try first what takes least: one detector after the other on what can be planted here, and then the rest."""
        here, elsewhere = list[Mutant](), list[Mutant]()
        for mutant in self._options.mutants:
            if all(self._results.of(mutant, each) for each in self._options.detectors):
                continue
            is_here = self._options.planted is not None or self._loaded.takes(mutant)
            (here if is_here else elsewhere).append(mutant)
        for detector in self._options.detectors:
            for mutant in here:
                if self._is_wanted(mutant, detector):
                    self._try(mutant, detector)
        for mutant in elsewhere:
            able = [each for each in self._options.detectors if each != BROKER]  # one broker for each would be too much
            if wanted := [each for each in able if self._is_wanted(mutant, each)]:
                work = partial(self._elsewhere, mutant, wanted, self._files_about(mutant))
                self._forks.begin(work, LONGEST_S, partial(self._tried_elsewhere, mutant, wanted))
        self._forks.join()

    def _tried_elsewhere(self, mutant: Mutant, wanted: Sequence[str], _: Ended) -> None:
        self._results.read()
        for detector in wanted:
            if self._results.of(mutant, detector) is None:  # it never ended its import, or killed its process
                self._add(mutant, detector, Result("", "", detector, caught=True, by="its process has died"))

    def _files_about(self, mutant: Mutant) -> list[str]:
        """Return the files of tests that come to the mutant's package or name it, and those that take next to nothing."""
        package, taken, reaching = mutant.file.rpartition("/")[0], Counter[str](), set[str]()
        for name, item in self._tests.get("tests", {}).items():
            if name in self._reach:
                taken[str(item.path)] += round(1000 * self._reach[name].cpu_s)
                if any(file.rpartition("/")[0] == package for file in self._reach[name].lines):
                    reaching.add(str(item.path))
        name = package.replace("/", ".")
        naming = {file for file in taken if name in Path(file).read_text(encoding="utf-8")}
        return sorted(file for file, ms in taken.items() if file in reaching | naming or ms < _NEXT_TO_NOTHING_MS)

    def _is_wanted(self, mutant: Mutant, detector: str) -> bool:
        if self._ends_at is not None and time.monotonic() > self._ends_at:
            return False
        return self._results.of(mutant, detector) is None and not self._is_out_of_reach(mutant, detector)

    def _is_out_of_reach(self, mutant: Mutant, detector: str) -> bool:
        """Note it where a detector never comes to the place that is changed."""
        names = self._tests.get(detector, [detector])
        if any(self._reach[name].has(mutant) for name in names if name in self._reach):
            return False
        self._add(mutant, detector, Result("", "", detector, caught=False, reached=False))
        return True

    def _try(self, mutant: Mutant, detector: str) -> None:
        if tests := self._tests.get(detector):
            able = sorted(
                (each.cpu_s, name, _LIKE_NEW * (_PATIENCE_S + each.clock_s))
                for name, each in self._reach.items()
                if name in tests and each.has(mutant)
            )
            able = self._within(able)
            cpu_s = sum(each for each, _, _ in able)
            notices: Detector = detectors.Tests([(tests[name], limit_s) for _, name, limit_s in able])
        else:
            cpu_s, notices = self._reach[detector].cpu_s, self._detectors[detector]

        def work() -> tuple[str | None]:
            if self._options.planted is None:
                self._loaded.plant(mutant)
            try:
                return (notices(),)
            except BaseException as error:  # noqa: BLE001  whatever it is, it is noticed
                return (f"{type(error).__name__}: {error}"[:200],)

        def done(ended: Ended) -> None:
            by = ended.why if ended.result is None else ended.result[0]
            self._add(mutant, detector, Result("", "", detector, by is not None, by or "", cpu_s=round(ended.cpu_s, 2)))

        self._forks.begin(work, _LIKE_NEW * (1 + cpu_s), done)

    def _within(self, able: list[tuple[float, str, float]]) -> list[tuple[float, str, float]]:
        """Return the tests that take least, at least one of them."""
        taken = [*accumulate(each for each, _, _ in able)]
        most = self._options.seconds
        return (
            able
            if most is None
            else [each for each, sum_s in zip(able, taken, strict=True) if sum_s <= most] or able[:1]
        )

    def _add(self, mutant: Mutant, detector: str, found: Result) -> None:
        result = Result(mutant.name, mutant.digest, detector, found.caught, found.by, found.reached, found.cpu_s)
        self._results.add(result)
        if found.reached and not found.caught:
            print(f"{detector:>9} did not notice  {mutant.name}", flush=True)
