"""One process that has collected the tests, and forks one that ends soon for each mutant and each detector."""

import pickle
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from hashlib import blake2b
from pathlib import Path

import pytest

from tests.mutation import detectors
from tests.mutation.detectors import Detector, failed
from tests.mutation.forks import Ended, Forks
from tests.mutation.mutants import ROOT, Mutant
from tests.mutation.planting import Loaded
from tests.mutation.reach import Lines, Reach, traced
from tests.mutation.results import Result, Results

_BASELINE_S = 900
_NEXT_TO_NOTHING_MS = 200
_PATIENCE_S = 3
"""So many seconds of the clock a test may take besides what it takes: the machine does other things."""
_LIKE_NEW = 5
"""A mutant may take so many times what the program takes, and as many seconds more, before it counts as noticed."""
Elsewhere = Callable[[Mutant, Sequence[str], Sequence[str]], None]


@dataclass(frozen=True)
class Options:
    """What is tried on which mutants, all of which are in `lines`; `planted` is in this process already.

    What runs where is kept in `reach`. `minutes` end a run, which goes on another time.
    """

    mutants: Sequence[Mutant]
    lines: Lines
    reach: Path
    detectors: Sequence[str]
    processes: int = 2
    minutes: float | None = None
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
            self._items = {item.nodeid: item for item in session.items}
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
            self._reach = _Reached(self._options, self._forks, self._detectors).of(session.items)
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
            if wanted := [each for each in self._options.detectors if self._is_wanted(mutant, each)]:
                work = partial(self._elsewhere, mutant, wanted, self._files_about(mutant))
                self._forks.begin(work, _BASELINE_S, partial(self._tried_elsewhere, mutant, wanted))
        self._forks.join()

    def _tried_elsewhere(self, mutant: Mutant, wanted: Sequence[str], _: Ended) -> None:
        self._results.read()
        for detector in wanted:
            if self._results.of(mutant, detector) is None:  # it never ended its import, or killed its process
                self._add(mutant, detector, Result("", "", detector, caught=True, by="its process has died"))

    def _files_about(self, mutant: Mutant) -> list[str]:
        """Return the files of tests that come to the mutant's package, and those that take next to nothing."""
        package, taken, reaching = mutant.file.rpartition("/")[0], Counter[str](), set[str]()
        for name, item in self._items.items():
            if name in self._reach:
                taken[str(item.path)] += round(1000 * self._reach[name].cpu_s)
                if any(file.rpartition("/")[0] == package for file in self._reach[name].lines):
                    reaching.add(str(item.path))
        return sorted(file for file, ms in taken.items() if file in reaching or ms < _NEXT_TO_NOTHING_MS)

    def _is_wanted(self, mutant: Mutant, detector: str) -> bool:
        if self._ends_at is not None and time.monotonic() > self._ends_at:
            return False
        return self._results.of(mutant, detector) is None and not self._is_out_of_reach(mutant, detector)

    def _is_out_of_reach(self, mutant: Mutant, detector: str) -> bool:
        """Note it where a detector never comes to the place that is changed."""
        names = self._items if detector == "tests" else [detector]
        if any(self._reach[name].has(mutant) for name in names if name in self._reach):
            return False
        self._add(mutant, detector, Result("", "", detector, caught=False, reached=False))
        return True

    def _try(self, mutant: Mutant, detector: str) -> None:
        if detector == "tests":
            able = sorted(
                (each.cpu_s, name, _LIKE_NEW * (_PATIENCE_S + each.clock_s))
                for name, each in self._reach.items()
                if name in self._items and each.has(mutant)
            )
            cpu_s = sum(each for each, _, _ in able)
            notices: Detector = detectors.Tests([(self._items[name], limit_s) for _, name, limit_s in able])
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

    def _add(self, mutant: Mutant, detector: str, found: Result) -> None:
        result = Result(mutant.name, mutant.digest, detector, found.caught, found.by, found.reached, found.cpu_s)
        self._results.add(result)
        if found.reached and not found.caught:
            print(f"{detector:>9} did not notice  {mutant.name}", flush=True)


class _Reached:
    """What runs where: measured in forked processes, so that nothing is warmed up here, and kept by file of tests."""

    def __init__(self, options: Options, forks: Forks, others: Mapping[str, Detector]) -> None:
        self._forks = forks
        self._others = others
        self._is_planted = options.planted is not None
        self._lines = options.lines
        self._file = options.reach
        self._kept = dict[tuple[str, str], dict[str, Reach]]()
        if self._file.exists():
            self._kept = pickle.loads(self._file.read_bytes())  # noqa: S301  this program's own

    def of(self, items: Sequence[pytest.Item]) -> dict[str, Reach]:
        """Return it by test and detector; tests that fail as things are have none."""
        found = dict[str, Reach]()
        by_file: dict[Path, list[pytest.Item]] = {}
        for item in items:
            by_file.setdefault(item.path, []).append(item)
        parts: list[tuple[str, str, Callable[[], dict[str, Reach]]]] = [
            (str(path), _digest([path]), partial(self._tests, each)) for path, each in by_file.items()
        ]
        parts += [(name, "", partial(self._other, name)) for name in self._others]
        sources = _digest([ROOT / file for file in self._lines], self._lines)
        for name, digest, measure in parts:
            key = (name, digest + sources)
            if key in self._kept:
                found |= self._kept[key]
            elif not self._is_planted:  # the program as it is was measured before
                self._measure(key, measure, found)
        self._forks.join()
        return {name: each for name, each in found.items() if not each.failed}

    def _measure(self, key: tuple[str, str], measure: Callable[[], dict[str, Reach]], found: dict[str, Reach]) -> None:
        def done(ended: Ended) -> None:
            if ended.result is None:
                raise RuntimeError(f"{key[0]} cannot be measured: {ended.why}")
            self._kept[key] = ended.result
            self._file.write_bytes(pickle.dumps(self._kept))
            found.update(ended.result)
            print(f"measured {key[0]}: {ended.cpu_s:.1f} s", flush=True)

        self._forks.begin(measure, _BASELINE_S, done)

    def _tests(self, items: Sequence[pytest.Item]) -> dict[str, Reach]:
        found = dict[str, Reach]()
        for item, following in zip(items, [*items[1:], None], strict=True):
            with traced(self._lines) as reach:
                reach.failed = failed(item, following)
            found[item.nodeid] = reach
        return found

    def _other(self, name: str) -> dict[str, Reach]:
        with traced(self._lines) as reach:
            by = self._others[name]()
        assert by is None, f"{name} finds fault with the program as it is: {by}"
        return {name: reach}


def _digest(paths: Sequence[Path], lines: Lines | None = None) -> str:
    made_of = blake2b(repr([(file, sorted(each)) for file, each in (lines or {}).items()]).encode(), digest_size=8)
    for path in paths:
        made_of.update(path.read_bytes())
    return made_of.hexdigest()
