"""What a run of the tests does about signals, and about what is left of it."""

import signal
import subprocess
import sys

import pytest

from tests import leftovers
from tests.signals import hear_ctrl_c


def test_what_a_shell_starts_in_the_background_hears_ctrl_c() -> None:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        hear_ctrl_c()
        shown = [sys.executable, "-c", "import signal; print(signal.getsignal(signal.SIGINT).__name__)"]
        heard = subprocess.run(shown, capture_output=True, text=True, timeout=60, check=True).stdout
    finally:
        signal.signal(signal.SIGINT, before)
    assert heard == "default_int_handler\n"


def test_a_process_that_is_left_is_named_and_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leftovers, "ENDS_S", 0.0)
    monkeypatch.delenv("RUN_OF_TESTS", raising=False)
    leftovers.mark_children()
    # the shell says so once what it left has become `sleep`: before, it is seen as another shell
    until = 'until [[ "$(readlink /proc/$!/exe)" == *sleep ]]; do :; done'
    subprocess.run(["bash", "-c", f"sleep 600 > /dev/null 2>&1 & {until}"], timeout=60, check=True)
    assert list(leftovers.end_leftovers().values()) == ["sleep 600 "]
    monkeypatch.setattr(leftovers, "ENDS_S", 60.0)
    assert leftovers.end_leftovers() == {}
