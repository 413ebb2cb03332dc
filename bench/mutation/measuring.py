"""Measures which tests, and which other detectors, reach the statements that mutants change."""

import pickle
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from hashlib import blake2b
from pathlib import Path

import pytest

from bench.mutation.detectors import Detector, failed
from bench.mutation.forks import Ended, Forks
from bench.mutation.mutants import ROOT
from bench.mutation.reach import Lines, Reach, traced

LONGEST_S = 900


class Measuring:
    """What runs where: measured in forked processes, so that nothing is warmed up here, and kept by file of tests."""

    def __init__(self, file: Path, lines: Lines, forks: Forks, others: Mapping[str, Detector]) -> None:
        self._file = file
        self._lines = lines
        self._forks = forks
        self._others = others
        self._kept = dict[tuple[str, str], dict[str, Reach]]()
        if self._file.exists():
            self._kept = pickle.loads(self._file.read_bytes())  # noqa: S301  this program's own

    def of(self, items: Sequence[pytest.Item], *, is_planted: bool) -> dict[str, Reach]:
        """Return it by test and detector; tests that fail as things are have none.

        With a mutant in this process, what was measured before is all there is.
        """
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
            elif not is_planted:
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

        self._forks.begin(measure, LONGEST_S, done)

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
