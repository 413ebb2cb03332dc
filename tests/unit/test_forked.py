"""A forked command is a process of its own: directory, environment, streams, code and end."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.forked import Forks, forks

PROGRAM = """
import os, sys, settings
print(settings.NAME, os.getcwd(), os.environ["WHO"], sys.argv, "HOME" in os.environ, repr(sys.stdin.read()))
sys.stderr.write("beside it\\n")
sys.exit(settings.CODE)
"""


pytestmark = pytest.mark.heavy


@pytest.fixture(scope="module")
def forked() -> Iterator[Forks]:
    with forks() as found:
        yield found


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    (tmp_path / "project").mkdir()
    (tmp_path / "project" / "program.py").write_text(PROGRAM)
    (tmp_path / "project" / "settings.py").write_text("NAME, CODE = 'one', 3\n")
    return tmp_path / "project"


@pytest.mark.parametrize("way", [["program.py"], ["-m", "program"]])
def test_it_prints_and_ends_as_a_process_does(directory: Path, forked: Forks, way: list[str]) -> None:
    output = directory / "output"
    assert forked.run(["python", *way, "a b"], directory, {"WHO": "ada"}, output) == 3
    printed = output.read_text()
    assert f"one {directory} ada" in printed
    assert "'a b'] False ''" in printed
    assert "beside it\n" in printed
    (directory / "settings.py").write_text("NAME, CODE = 'another', None\n")
    assert forked.run(["python", *way], directory, {"WHO": "ada"}, output) == 0
    assert f"another {directory} ada" in output.read_text()


def test_an_error_is_a_traceback_and_a_signal_an_end_by_it(directory: Path, forked: Forks) -> None:
    output = directory / "output"
    (directory / "program.py").write_text("raise ValueError('not seven')")
    assert forked.run(["python", "program.py"], directory, {}, output) == 1
    assert output.read_text().endswith("ValueError: not seven\n")
    (directory / "program.py").write_text("import os, signal; os.kill(os.getpid(), signal.SIGTERM)")
    assert forked.run(["python", "program.py"], directory, {}, output) == -15


def test_a_command_of_the_library_reads_the_directorys_project(directory: Path, forked: Forks) -> None:
    (directory / "shelf.py").write_text(
        "from eventlib import Choreography, Decider, Service\nfrom dataclasses import dataclass\n"
        "@dataclass(frozen=True)\nclass Shelf:\n    units: int = 0\n"
        "library = Choreography('library', [Service('shelves', deciders=[Decider('shelf', state=Shelf, key='sku')])])\n"
    )
    output = directory / "output"
    forked.run(["eventlib", "check", "--app", "shelf:library"], directory, dict(os.environ), output)
    assert "shelf" in output.read_text()
    assert "Traceback" not in output.read_text()
