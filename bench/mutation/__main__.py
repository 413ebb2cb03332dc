"""`python -m bench.mutation`: plants mutants, and counts which detectors notice them. `make mutants` runs it."""

import argparse
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

from bench.mutation.mutants import ROOT, Mutant, mutants_in, sample
from bench.mutation.planting import plant_on_import
from bench.mutation.reach import lines_of
from bench.mutation.results import BROKER, DETECTORS, RESULTS, Results, equivalent, table


class Target(NamedTuple):
    """What is mutated, how many of its mutants are chosen (None: all), and which of the quick tests are about it.

    `on_broker` are the files with tests about it that need a broker.
    """

    places: Sequence[str]
    most: int | None
    tests: Sequence[str]
    on_broker: Sequence[str] = ()

    def mutants(self) -> list[Mutant]:
        """Return its mutants, in the order in which they are tried."""
        found = mutants_in(self.places)
        return found if self.most is None else sample(found, self.most)


_LEFT_OUT = [f"--ignore-glob=*/{name}.py" for name in ("test_mutants", "test_mutation", "test_types")]
"""Tests that plant mutants of their own, and one that asks another process about types."""
_PYTEST = [
    *("-n0", "-q", "-p", "no:cacheprovider", "--continue-on-collection-errors", *_LEFT_OUT),
    *("-W", "ignore::pytest.PytestAssertRewriteWarning"),  # what the detectors import is imported before pytest begins
]
_IN_PROCESS = [
    f"tests/integration/test_{name}.py"
    for name in (
        *("runtime", "relay", "parked", "parked_previews", "pausing", "damage", "rebuilding", "reset"),
        *("history", "cli_history", "cli_debugging", "replay_journal", "effect_limits", "acts"),
        *("doctor_deep", "traces", "metrics", "status", "switch", "standbys"),
        *("replay_changed_code", "foreign_topics", "cli_on_a_log"),
    )
]
"""What the quick suite leaves out, and starts no process."""
TARGETS = {
    "services": Target(
        [
            *(f"services/order/{name}.py" for name in ("decider", "evolve", "state", "events")),
            *("services/stock", "services/payment", "services/dispatch", "services/invariants", "services/fields.py"),
        ],
        None,
        [
            *("tests/unit/services", "tests/unit/test_live_views.py", "tests/contract/test_outside.py"),
            *("tests/contract/test_http_calls.py", "tests/contract/test_outgoing.py"),
        ],
    ),
    "shop": Target(
        [
            *(f"services/order/{name}" for name in ("http", "views.py", "index.py", "api.py")),
            *("services/importing", "services/simulation", "services/http_calls.py", "services/outside.py"),
        ],
        200,
        [
            *("tests/unit/services", "tests/unit/test_simulation.py", "tests/unit/test_ledger.py"),
            *(f"tests/unit/test_importing_{name}.py" for name in ("commands", "csv", "orders", "source")),
            *("tests/contract/test_outside.py", "tests/contract/test_http_calls.py", "tests/contract/test_outgoing.py"),
            *("tests/saga/test_import.py", "tests/saga/test_import_inputs.py", "tests/saga/test_outcomes.py"),
            *(f"tests/integration/test_{name}.py" for name in ("api", "api_problems", "api_sagas", "order_index")),
        ],
    ),
    "runtime": Target(
        ["eventlib/runtime", "eventlib/log", "eventlib/replay"],
        500,
        ["tests/unit", "tests/contract", "tests/saga", *_IN_PROCESS],
        on_broker=[
            *("tests/contract/test_kafka_log.py", "tests/integration/test_copy.py"),
            *(f"tests/integration/test_kafka_{name}.py" for name in ("claims", "topics", "standbys", "pitfalls")),
            *(f"tests/integration/test_{name}_kafka.py" for name in ("relay", "switch", "doctor")),
        ],
    ),
}


def main() -> None:
    """Do what the command line says."""
    given = _arguments()
    target = TARGETS[given.target]
    mutants = target.mutants() if given.most is None else sample(target.mutants(), given.most)
    same = equivalent()
    mutants = [mutant for mutant in mutants if mutant.file.startswith(given.below) and mutant.name not in same]
    results = Results(given.results)
    if given.planted is not None:
        _try_planted(given, target, mutants, results)
        return
    if not given.table:
        _try_all(given, target, mutants, results)
    print(*table(mutants, results), "", sep="\n")
    survivors = results.survivors(mutants)
    for mutant in survivors:
        print(f"survived: {mutant.file}:{mutant.line} {mutant.name.partition(':')[2]}")
    sys.exit(bool(survivors))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.mutation", description=__doc__)
    parser.add_argument("target", choices=TARGETS)
    parser.add_argument("--only", choices=(*DETECTORS, BROKER), action="append", help="these detectors alone")
    parser.add_argument("--minutes", type=float, help="end after so many; the next run goes on")
    parser.add_argument("--seconds", type=float, help="tests that take so many in all, for each mutant")
    parser.add_argument("--most", type=int, help="of the target's mutants a seeded sample of so many")
    parser.add_argument("--below", default="", metavar="PATH", help="those in files whose path begins so")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--again", action="store_true", help="try again what was not noticed")
    parser.add_argument("--results", type=Path, default=RESULTS, help="where results are kept")
    parser.add_argument("--table", action="store_true", help="print what was found, and run nothing")
    parser.add_argument("--planted", help=argparse.SUPPRESS)
    parser.add_argument("--tests", action="append", metavar="PATH", help="these tests, not all that are about it")
    return parser.parse_args()


def _try_all(given: argparse.Namespace, target: Target, mutants: Sequence[Mutant], results: Results) -> None:
    from bench.mutation.recorded import record

    if given.again:
        results.forget_survival(given.only or DETECTORS)
    record()
    if ended := _run(given, target, mutants, results, None):
        sys.exit(f"pytest ended with {ended}: not all was tried")


def _try_planted(given: argparse.Namespace, target: Target, mutants: Sequence[Mutant], results: Results) -> None:
    planted = next((each for each in mutants if each.name == given.planted), None)
    if planted is None:
        sys.exit(f"there is no such mutant: {given.planted}")
    plant_on_import(planted)
    _run(given, target, [planted], results, planted)


def _run(
    given: argparse.Namespace, target: Target, mutants: Sequence[Mutant], results: Results, planted: Mutant | None
) -> int:
    from bench.mutation.recorded import BUILD
    from bench.mutation.running import Options, Run  # what is planted on import has to be planted first

    def elsewhere(mutant: Mutant, wanted: Sequence[str], files: Sequence[str]) -> None:
        only = [f"--only={each}" for each in wanted]
        command = [sys.executable, "-m", "bench.mutation", given.target, f"--planted={mutant.name}", *only]
        command += [f"--results={given.results}", *(f"--tests={file}" for file in files)]
        subprocess.run(command, cwd=ROOT, check=False, capture_output=True)

    lines, chosen = lines_of(target.mutants()), given.only or DETECTORS
    reach = BUILD / f"reach-{given.target}.pickle"
    options = Options(mutants, lines, reach, chosen, given.processes, given.minutes, given.seconds, planted)
    tests = [*(target.on_broker if BROKER in chosen else ()), *(() if [*chosen] == [BROKER] else target.tests)]
    # pytest would rewrite the assertions of this library, which has a plugin, and read its sources past what is planted.
    plain = [] if planted is None else ["--assert=plain"]
    return pytest.main([*_PYTEST, *plain, *(given.tests or tests)], plugins=[Run(options, results, elsewhere)])


if __name__ == "__main__":
    main()
