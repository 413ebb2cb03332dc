"""`eventlib prove shrink` and `history --as-test`: what failed or was decided becomes a test in the application's repository."""

import subprocess
import sys
from pathlib import Path
from subprocess import CompletedProcess

from tests import forked
from tests.commands import NO_PLUGINS
from tests.integration.repository import DECIDER, RAISES, Repository


def test_a_failure_becomes_a_test_that_fails_until_it_is_mended(repository: Repository, filled: str) -> None:
    whole = (repository.directory / DECIDER).read_text()
    repository.change(RAISES)
    done = subprocess_of("prove", "shrink", "payment", "large", "--out", "test_large.py", "--log", filled)
    assert (done.returncode, done.stderr) == (0, "1 event became 1 event\n")
    text = (repository.directory / "test_large.py").read_text()
    assert 'StockReserved(order_id="x", amount_cents=' in text
    assert "It raised KeyError in charge: 'MT'." in text
    failed = checked(repository.directory)
    assert (failed.returncode, "KeyError: 'MT'" in failed.stdout) == (1, True)
    (repository.directory / DECIDER).write_text(whole)
    assert checked(repository.directory).returncode == 0
    assert (
        "today's code fails on no input of payment large"
        in subprocess_of("prove", "shrink", "payment", "large", "--log", filled).stderr
    )


def test_what_led_to_a_failure_is_kept_and_nothing_else(repository: Repository, filled: str) -> None:
    ends = ("payments.follows(OrderCompleted, OrderCancelled)", ENDS_BADLY)
    repository.change(ends)
    done = subprocess_of("prove", "shrink", "payment", "completed", "--out", "test_completed.py", "--log", filled)
    assert (done.returncode, done.stderr) == (0, "4 events became 3 events\n")
    text = (repository.directory / "test_completed.py").read_text()
    assert "        PaymentTaken(" in text
    assert "        StockReserved(" not in text
    assert checked(repository.directory).returncode == 1


def test_what_was_decided_becomes_a_test_that_passes(repository: Repository, filled: str) -> None:
    done = subprocess_of("history", "payment", "completed", "--as-test", "--log", filled)
    assert done.returncode == 0, done.stderr
    (repository.directory / "test_completed.py").write_text(done.stdout)
    assert checked(repository.directory).returncode == 0
    for arguments in (("check", "--select", "E,F,I,D,ANN,W"), ("format", "--diff")):
        command = [sys.executable, "-m", "ruff", *arguments, "--isolated", "--line-length", "120", "test_completed.py"]
        clean = subprocess.run(command, cwd=repository.directory, check=False, capture_output=True, text=True)
        assert clean.returncode == 0, clean.stdout


ENDS_BADLY = """

@payments.on
def ended(payment: Payment, order: OrderCompleted) -> list[RefundRequested]:
    if payment.stage is Stage.TAKEN:
        raise ValueError(order.order_id)
    return []


payments.follows(OrderCancelled)"""


def subprocess_of(*arguments: str) -> CompletedProcess[str]:
    """Run a command in a process that imports the repository's code."""
    command = [sys.executable, "-m", "eventlib", *arguments]
    return forked.run(command, capture_output=True)


def checked(directory: Path) -> CompletedProcess[str]:
    """Run the tests that stand in the repository."""
    plugins = ("-p", "no:cacheprovider", *NO_PLUGINS.split())
    command = [sys.executable, "-m", "pytest", "-q", *plugins, "-W", "ignore", "--rootdir", str(directory)]
    return forked.run(command, cwd=directory, capture_output=True)
