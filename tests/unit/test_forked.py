"""A forked command is a process of its own: directory, environment, streams, code and end."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests import forked

PROGRAM = """
import os, sys, settings
print(settings.NAME, os.getcwd(), os.environ["WHO"], sys.argv, "HOME" in os.environ, repr(sys.stdin.read()))
sys.stderr.write("beside it\\n")
sys.exit(settings.CODE)
"""


pytestmark = pytest.mark.heavy


def run(command: list[str], directory: Path, environment: dict[str, str], output: Path) -> int:
    with output.open("wb") as file:
        streams: dict[str, Any] = {"stdin": subprocess.DEVNULL, "stdout": file, "stderr": file}
        return forked.run(command, cwd=directory, env=environment, **streams).returncode


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    (tmp_path / "project").mkdir()
    (tmp_path / "project" / "program.py").write_text(PROGRAM)
    (tmp_path / "project" / "settings.py").write_text("NAME, CODE = 'one', 3\n")
    return tmp_path / "project"


@pytest.mark.parametrize("way", [["program.py"], ["-m", "program"]])
def test_it_prints_and_ends_as_a_process_does(directory: Path, way: list[str]) -> None:
    output = directory / "output"
    assert run(["python", *way, "a b"], directory, {"WHO": "ada"}, output) == 3
    printed = output.read_text()
    assert f"one {directory} ada" in printed
    assert "'a b'] False ''" in printed
    assert "beside it\n" in printed
    (directory / "settings.py").write_text("NAME, CODE = 'another', None\n")
    assert run(["python", *way], directory, {"WHO": "ada"}, output) == 0
    assert f"another {directory} ada" in output.read_text()


def test_an_error_is_a_traceback_and_a_signal_an_end_by_it(directory: Path) -> None:
    output = directory / "output"
    (directory / "program.py").write_text("raise ValueError('not seven')")
    assert run(["python", "program.py"], directory, {}, output) == 1
    assert output.read_text().endswith("ValueError: not seven\n")
    (directory / "program.py").write_text("import os, signal; os.kill(os.getpid(), signal.SIGTERM)")
    assert run(["python", "program.py"], directory, {}, output) == -15


def test_a_command_of_the_library_reads_the_directorys_project(directory: Path) -> None:
    (directory / "shelf.py").write_text(
        "from eventlib import Choreography, Decider, Service\nfrom dataclasses import dataclass\n"
        "@dataclass(frozen=True)\nclass Shelf:\n    units: int = 0\n"
        "library = Choreography('library', [Service('shelves', deciders=[Decider('shelf', state=Shelf, key='sku')])])\n"
    )
    output = directory / "output"
    run(["eventlib", "check", "--app", "shelf:library"], directory, dict(os.environ), output)
    assert "shelf" in output.read_text()
    assert "Traceback" not in output.read_text()


CHILD = """
import atexit, os, sys
atexit.register(print, "at its end", file=sys.stderr)
print(os.getppid(), sys.argv[1:], flush=True)
print(sys.stdin.readline().upper())
"""


def test_it_is_a_child_with_pipes_and_hears_signals() -> None:
    pipe = subprocess.PIPE
    with forked.Popen([sys.executable, "-c", CHILD, "a"], stdin=pipe, stdout=pipe, stderr=pipe, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == f"{os.getpid()} ['a']\n"
        assert process.poll() is None
        assert process.communicate("said\n") == ("SAID\n\n", "at its end\n")
    assert process.returncode == 0
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGKILL):
        waiting = [sys.executable, "-c", "print(flush=True); import time; time.sleep(1_000)"]
        with forked.Popen(waiting, stdout=pipe, stderr=subprocess.DEVNULL) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == b"\n"
            process.send_signal(number)
            assert process.wait() == -number
