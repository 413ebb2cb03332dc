"""What was found of mutants: kept line by line, so that a run goes on where another was ended."""

import json
import tomllib
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from bench.mutation.mutants import ROOT, Mutant

RESULTS = ROOT / "build" / "mutants.jsonl"
EQUIVALENT = Path(__file__).with_name("equivalent.toml")
DETECTORS = ("tests", "corpus", "proof", "simulator")
BROKER = "broker"
"""The tests that need one: on demand, since they take seconds each."""
_ALL = (*DETECTORS, BROKER)


@dataclass(frozen=True, slots=True)
class Result:
    """What one detector found of one mutant; `by` is what noticed it, and `reached` whether its place runs there at all."""

    name: str
    digest: str
    detector: str
    caught: bool
    by: str = ""
    reached: bool = True
    cpu_s: float = 0.0


class Results:
    """All results; those of a function that has changed since are forgotten."""

    def __init__(self, path: Path = RESULTS) -> None:
        self._path = path
        self._found: dict[tuple[str, str], Result] = {}
        self.read()

    def read(self) -> None:
        """Read what is there, also from other processes."""
        if self._path.exists():
            for line in self._path.read_text(encoding="utf-8").splitlines():
                result = Result(**json.loads(line))
                self._found[result.name, result.detector] = result

    def of(self, mutant: Mutant, detector: str) -> Result | None:
        """Return what a detector found of a mutant; None if it was not tried on it as it is."""
        found = self._found.get((mutant.name, detector))
        return found if found is not None and found.digest == mutant.digest else None

    def add(self, result: Result) -> None:
        """Keep a result."""
        self._found[result.name, result.detector] = result
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(asdict(result), ensure_ascii=False) + "\n")

    def forget_survival(self, detectors: Sequence[str]) -> None:
        """Let these detectors be tried again on what they have not noticed."""
        self._found = {
            key: found for key, found in self._found.items() if found.caught or found.detector not in detectors
        }

    def survivors(self, mutants: Iterable[Mutant]) -> list[Mutant]:
        """Return those that no detector has noticed, of the ones that any was tried on."""
        return [
            mutant
            for mutant in mutants
            if any(self.of(mutant, each) for each in _ALL)
            and not any(found.caught for each in _ALL if (found := self.of(mutant, each)) is not None)
        ]


def equivalent(path: Path = EQUIVALENT) -> Mapping[str, str]:
    """Return the names of mutants that do what the program does, and why it is so."""
    return {each["name"]: each["why"] for each in tomllib.loads(path.read_text(encoding="utf-8"))["equivalent"]}


def table(mutants: Sequence[Mutant], results: Results) -> list[str]:
    """Return a Markdown table: of each package's mutants, how many each detector notices.

    A detector's share is of those that it was tried on; together, of those that any was.
    """
    groups = defaultdict[str, list[Mutant]](list)
    for mutant in mutants:
        groups["/".join(mutant.file.split("/")[:2])].append(mutant)
    lines = [
        "| | mutants | the tests | the corpus | the proof | the simulator | the broker's tests | together |",
        "|---|---|---|---|---|---|---|---|",
        *(_row(name, each, results) for name, each in groups.items()),
    ]
    if len(groups) > 1:
        lines.append(_row("all", [mutant for each in groups.values() for mutant in each], results))
    return lines


def _row(name: str, mutants: Sequence[Mutant], results: Results) -> str:
    cells, noticed = list[str](), dict[str, bool]()
    for detector in _ALL:
        tried = [found for mutant in mutants if (found := results.of(mutant, detector)) is not None]
        cells.append(_share(sum(found.caught for found in tried), len(tried)))
        for found in tried:
            noticed[found.name] = noticed.get(found.name, False) or found.caught
    together = _share(sum(noticed.values()), len(noticed))
    return f"| `{name}` | {len(mutants):,} | {' | '.join(cells)} | {together} |"


def _share(caught: int, of: int) -> str:
    return f"{caught:,} of {of:,}, {100 * caught / of:.1f} %" if of else ""
