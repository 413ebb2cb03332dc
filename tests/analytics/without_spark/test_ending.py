"""However a command ends, its exit code says how, and nothing of it stays: no traceback, no directory, no process."""

import os
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.analytics.processes import LONGEST_S, first_line, left_by, running, said, wait_until
from tests.analytics.sources import REPAIRS

Sends = Callable[["subprocess.Popen[str]"], None]


def to_it(number: signal.Signals) -> Sends:
    return lambda process: process.send_signal(number)


def to_all(number: signal.Signals) -> Sends:
    """As a terminal does, or a service manager: to the processes that it has started, too."""
    return lambda process: os.killpg(process.pid, number)


@pytest.mark.parametrize(
    "sends",
    [
        pytest.param(to_it(signal.SIGTERM), id="SIGTERM", marks=pytest.mark.extended),
        pytest.param(to_all(signal.SIGINT), id="Ctrl-C", marks=pytest.mark.slow),
        pytest.param(to_all(signal.SIGTERM), id="SIGTERM to all", marks=pytest.mark.slow),
    ],
)
def test_a_follower_that_is_told_to_end_has_done_well(repair_log: str, tmp_path: Path, sends: Sends) -> None:
    temporary, out = tmp_path / "temporary", tmp_path / "out"
    whose = ("--app", str(REPAIRS.named), "--log", repair_log)
    command = ("rebuild", *whose, "--out", str(out), "--select", "intake", "--follow", "--json")
    with running(temporary, *command) as follower:
        first_line(follower)
        sends(follower)
        assert (said_by_us(said(follower)), follower.returncode) == ("", 0)
    assert left_by(temporary) == []
    assert [path.name for path in (out / "versions").iterdir()] == ["0000000001"]
    assert not (out / "scratch").exists()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("sends", "code"),
    [
        pytest.param(to_it(signal.SIGTERM), 143, id="SIGTERM"),
        pytest.param(to_all(signal.SIGINT), 130, id="Ctrl-C"),
    ],
)
@pytest.mark.parametrize("command", ["rebuild", "audit"])
def test_a_job_that_is_broken_off_says_so_by_its_code(
    shop_log: str, tmp_path: Path, command: str, sends: Sends, code: int
) -> None:
    temporary, out = tmp_path / "temporary", tmp_path / "out"

    def has_begun() -> bool:
        return (out / "versions").exists() if command == "rebuild" else any(temporary.glob("*/blockmgr-*"))

    with running(temporary, command, "--log", shop_log, "--out", str(out)) as job:
        wait_until(lambda: job.poll() is not None or has_begun())
        sends(job)
        assert (said_by_us(said(job)), job.returncode) == ("", code)
    assert left_by(temporary) == []


@pytest.mark.slow
def test_a_reader_that_has_enough_is_no_error(shop_log: str, tmp_path: Path) -> None:
    many = "SELECT p.* FROM OrderPlaced p, OrderPlaced"
    with running(tmp_path / "temporary", "sql", "--log", shop_log, "--json", many) as asked:
        assert first_line(asked).startswith("{")
        assert asked.stdout is not None
        asked.stdout.close()
        assert (said_by_us(said(asked)), asked.returncode) == ("", 0)
    assert left_by(tmp_path / "temporary") == []


@pytest.mark.slow
def test_a_jvm_that_is_full_ends_and_somebody_says_so(
    shop_log: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPARK_DRIVER_MEMORY", "600m")
    far_too_many = "SELECT p.*, r.* FROM OrderPlaced p, LineReserved, LineRequested r"
    with running(tmp_path / "temporary", "sql", "--log", shop_log, "--json", far_too_many) as asked:
        told = said_by_us(asked.communicate(timeout=LONGEST_S)[1])
        assert asked.returncode == 1
    assert "Java has no memory left" in told
    assert "SPARK_DRIVER_MEMORY" in told
    assert left_by(tmp_path / "temporary") == []


def said_by_us(text: str) -> str:
    """What was said, without what the JVM says when it is told to end in the middle of something."""
    assert "Traceback" not in text
    return "".join(line for line in text.splitlines(keepends=True) if line.startswith(("analytics:", "note:")))
