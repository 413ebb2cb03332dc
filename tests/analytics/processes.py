"""Commands of the analytics as processes of their own, and what is left of one that has ended."""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.analytics.sources import ROOT

LONGEST_S = 1_200
"""More, on a busy machine, than anything here takes: who waits longer has found something that hangs."""

_SOON_READY = "-XX:TieredStopAtLevel=1"
"""For the JVM: of what is done once, on a small log, the second compiler would take a third of the time."""

_ENDS_S = 120
"""How long what was started may take to end after who has started it."""


@contextmanager
def running(temporary: Path, *arguments: str) -> Iterator["subprocess.Popen[str]"]:
    """A command in a process group of its own, as in a terminal, whose temporary files go to a directory."""
    temporary.mkdir(parents=True, exist_ok=True)
    with subprocess.Popen(
        [sys.executable, "-m", "analytics", *arguments],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": str(temporary), "SPARK_SUBMIT_OPTS": _SOON_READY},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def first_line(process: "subprocess.Popen[str]") -> str:
    """Wait until a command has printed a line, and return it."""
    assert process.stdout is not None
    line = process.stdout.readline()
    assert line, process.communicate(timeout=LONGEST_S)[1]
    return line


def said(process: "subprocess.Popen[str]") -> str:
    """Wait until a command has ended, and return what it has said on stderr."""
    process.wait(LONGEST_S)
    assert process.stderr is not None
    return process.stderr.read()


def wait_until(done: Callable[[], object], process: "subprocess.Popen[str] | None" = None) -> None:
    """Wait until something has come about; not on a process that has ended before it came to that."""
    until = time.monotonic() + LONGEST_S
    while not done():
        if process is not None and process.poll() is not None:
            assert done(), f"it has ended with {process.returncode}: {process.communicate()}"
            return
        assert time.monotonic() < until, f"not in {LONGEST_S} s"
        time.sleep(0.01)


def left_by(directory: Path) -> list[str]:
    """What stands in a directory, and the processes that were told to use it, once they had the time to end."""
    until = time.monotonic() + _ENDS_S
    while (left := [*map(str, directory.iterdir()), *_using(directory)]) and time.monotonic() < until:
        time.sleep(0.1)
    return left


def _using(directory: Path) -> Iterator[str]:
    for found in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if str(directory) in found.read_text(encoding="utf-8", errors="replace"):
                yield str(found)
        except OSError:
            continue  # it has ended
