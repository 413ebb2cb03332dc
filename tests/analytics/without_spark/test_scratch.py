"""Nothing of a command stays in the temporary directory: not when it ends, is told to end, or was killed before."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.analytics.sources import ROOT

HOLD = """
import signal, sys, time
from analytics.scratch import scratch
signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
print(scratch(), flush=True)
time.sleep(60)
"""


@contextmanager
def holder(directory: Path) -> Iterator[tuple["subprocess.Popen[str]", Path]]:
    environment = {"PYTHONPATH": str(ROOT), "TMPDIR": str(directory)}
    command = [sys.executable, "-c", HOLD]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield process, Path(process.stdout.readline().strip())
        process.kill()


def test_what_a_killed_process_has_left_goes_when_the_next_one_begins(tmp_path: Path) -> None:
    with holder(tmp_path) as (process, left):
        process.kill()
        process.wait()
        assert left.is_dir()
    with holder(tmp_path) as (_, first), holder(tmp_path) as (_, second):
        assert {first, second} == set(tmp_path.iterdir())


def test_one_that_is_told_to_end_leaves_nothing(tmp_path: Path) -> None:
    with holder(tmp_path) as (process, _):
        process.terminate()
        assert process.wait(120) == 143
        assert list(tmp_path.iterdir()) == []
