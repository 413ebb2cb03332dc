"""Mutants: where a program is changed, how a change is planted, and what is kept of those that were tried."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from bench.mutation.__main__ import TARGETS
from bench.mutation.detectors import TOO_LONG
from bench.mutation.forks import Ended, Forks
from bench.mutation.mutants import ROOT, Mutant, mutants_of, sample
from bench.mutation.operators import sites
from bench.mutation.planting import Loaded
from bench.mutation.results import DETECTORS, Result, Results, equivalent, table
from services.stock.state import Reservation

STATE = "services/stock/state.py"
PROGRAM = '''
"""Not changed: """
LIMIT = 24

def handle(order: "Order", at=None):
    """Nor is this."""
    if order.ended and not order.late or at < 3:
        raise ValueError("nor this sentence")
    for line in order.lines:
        if line.done:
            continue
        order.count += line.units * 2
    match order:
        case Paid() | Sent():
            return [replace(order, stage="paid", open=False)]
    return order
'''
TRYING = """
from bench.mutation import detectors

def pytest_runtestloop(session):
    print(*(detectors.Tests([(item, 60.0)])() for item in session.items), sep="\\n")
    return True
"""


def changes(program: str) -> set[tuple[str, str, str]]:
    return {(site.operator, site.before, site.after) for site in sites(ast.parse(program))}


def test_each_operator_makes_its_change_and_what_has_no_behaviour_stays() -> None:
    found = changes(PROGRAM)
    assert {
        ("constant", "24", "25"),
        ("comparison", "at < 3", "at <= 3"),
        ("negation", "not order.late", "order.late"),
        ("operand", "order.ended and (not order.late)", "order.ended"),
        ("and, or", "order.ended and (not order.late)", "order.ended or not order.late"),
        ("condition", "line.done", "not line.done"),
        ("jump", "continue", "break"),
        ("calculation", "line.units * 2", "line.units + 2"),
        ("statement", "order.count += line.units * 2", "pass"),
        ("statement", "raise ValueError('nor this sentence')", "pass"),
        ("case", "Paid() | Sent()", "Paid()"),
        ("argument", "replace(order, stage='paid', open=False)", "replace(order, open=False)"),
        ("constant", "'paid'", "'paid_'"),
        ("return", "return order", "return None"),
    } <= found
    assert not any("sentence" in after or "Nor is" in after for operator, _, after in found if operator == "constant")


def test_names_tell_all_mutants_of_a_module_from_each_other_and_each_is_a_program() -> None:
    found = mutants_of(STATE)
    assert len({mutant.name for mutant in found}) == len(found) > 10
    programs = {ast.dump(mutant.tree()) for mutant in found}
    assert len(programs) == len(found)
    for mutant in found:
        compile(mutant.tree(), mutant.file, "exec")


def test_a_smaller_sample_is_the_beginning_of_a_larger_one() -> None:
    found = mutants_of(STATE)
    assert sample(found, 10)[:4] == sample(found, 4)


def test_a_sample_stays_the_same_where_the_sources_do() -> None:
    found = mutants_of(STATE)
    chosen = sample(found, 10)
    assert chosen == sample(found[::-1], 10)
    assert chosen[1:] == sample([mutant for mutant in found if mutant != chosen[0]], 9)


def open_reservation() -> Mutant:
    return next(mutant for mutant in mutants_of(STATE) if mutant.before == "not self.releasing")


def test_a_planted_mutant_changes_a_forked_process_alone() -> None:
    reservation = Reservation(asked=1, answered=1)
    loaded, mutant, found = Loaded(), open_reservation(), list[Ended]()
    assert loaded.takes(mutant)

    def planted() -> bool:
        loaded.plant(mutant)
        return reservation.is_back

    forks = Forks(1)
    forks.begin(planted, 5.0, found.append)
    forks.begin(lambda: reservation.is_back, 5.0, found.append)
    forks.join()
    assert [ended.result for ended in found] == [False, True]
    assert reservation.is_back


def test_a_mutant_that_never_ends_is_ended() -> None:
    found = list[Ended]()

    def endless() -> None:
        while True:
            pass

    forks = Forks(1)
    forks.begin(endless, 0.0, found.append)
    forks.join()
    assert [(ended.result, ended.why) for ended in found] == [(None, "ended by SIGXCPU")]


def test_a_test_that_waits_in_vain_is_told_from_one_that_finds_fault(tmp_path: Path) -> None:
    """In a process of its own, since it has an alarm set."""
    (tmp_path / "conftest.py").write_text(TRYING)
    (tmp_path / "test_two.py").write_text("def test_waits(): raise TimeoutError\n\ndef test_finds(): assert 0\n")
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-s",
        "-n0",
        "-c",
        "pyproject.toml",
        f"--rootdir={tmp_path}",
        str(tmp_path),
    ]
    done = subprocess.run(command, cwd=ROOT, check=False, capture_output=True, text=True)
    assert f"test_two.py::test_waits{TOO_LONG}\n" in done.stdout, done.stdout
    assert "test_two.py::test_finds\n" in done.stdout, done.stdout


def test_a_run_goes_on_where_another_was_ended_unless_the_function_has_changed(tmp_path: Path) -> None:
    mutant = open_reservation()
    kept = Results(tmp_path / "mutants.jsonl")
    kept.add(Result(mutant.name, mutant.digest, "tests", caught=False))
    assert [*kept.survivors([mutant])] == [mutant]
    kept.add(Result(mutant.name, mutant.digest, "corpus", caught=True, by="a decision"))
    again = Results(tmp_path / "mutants.jsonl")
    assert [*again.survivors([mutant])] == []
    assert (
        table([mutant], again)[-1]
        == "| `services/stock` | 1 | 0 of 1, 0.0 % | 1 of 1, 100.0 % |  |  |  | 1 of 1, 100.0 % |"
    )
    kept.add(Result(mutant.name, "another", "tests", caught=True))
    assert Results(tmp_path / "mutants.jsonl").of(mutant, "tests") is None


def test_every_mutant_that_is_called_equivalent_is_one() -> None:
    files = {name.partition(":")[0] for name in equivalent()}
    assert equivalent().keys() <= {mutant.name for file in files for mutant in mutants_of(file)}


@pytest.mark.slow
def test_of_forty_mutants_of_the_services_none_survives(tmp_path: Path) -> None:
    kept = tmp_path / "mutants.jsonl"
    command = [sys.executable, "-m", "bench.mutation", "services", "--most=40", f"--results={kept}"]
    done = subprocess.run(command, cwd=ROOT, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    results = Results(kept)
    assert all(results.of(mutant, each) for mutant in sample(TARGETS["services"].mutants(), 40) for each in DETECTORS)
