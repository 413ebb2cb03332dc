"""A function is called in a process that has imported the library, and nothing else."""

import os
import signal
import sys
import time
from pathlib import Path
from threading import Thread, main_thread

import pytest

from eventlib.errors import ContractError, TerminalError
from eventlib.proof.elsewhere import elsewhere


def imported() -> tuple[int, set[str]]:
    """Return this process, and what it has imported, and import something."""
    before = {name.partition(".")[0] for name in sys.modules}
    import services  # noqa: F401

    return os.getpid(), before


def test_each_question_has_a_process_of_its_own_that_knows_no_application() -> None:
    processes = set[int]()
    for _ in range(2):
        process, names = elsewhere(imported)
        processes.add(process)
        assert "eventlib" in names
        assert "services" not in names
    assert len(processes | {os.getpid()}) == 3


def test_it_is_asked_in_this_directory_and_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    elsewhere(os.getpid)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("EVENTLIB_LOG", "memory:")
    monkeypatch.setenv("PYTHONHASHSEED", "77")
    assert elsewhere(Path.cwd) == tmp_path
    assert elsewhere(os.getenv, "EVENTLIB_LOG") == "memory:"
    of_the_seed = elsewhere(hash, "a text")
    monkeypatch.setenv("PYTHONHASHSEED", "78")
    assert elsewhere(hash, "a text") != of_the_seed


def fails(text: str) -> None:
    raise ContractError(text)


def test_its_errors_are_raised_and_its_death_is_one() -> None:
    with pytest.raises(ContractError, match="no such thing"):
        elsewhere(fails, "no such thing")
    with pytest.raises(TerminalError, match="has died, with exit code 3"):
        elsewhere(sys.exit, 3)
    with pytest.raises(TerminalError, match="has died, with exit code -9"):
        elsewhere(signal.raise_signal, signal.SIGKILL)
    assert elsewhere(abs, -1) == 1


def hold(place: Path) -> None:
    with place.open("w"):
        time.sleep(600)


def test_it_ends_when_the_question_is_interrupted(tmp_path: Path) -> None:
    place, ended = tmp_path / "held", list[str]()
    os.mkfifo(place)

    def interrupt() -> None:
        with place.open() as held:
            signal.pthread_kill(main_thread().ident or 0, signal.SIGUSR1)
            ended.append(held.read())

    def heard(*_: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGUSR1, heard)
    asking = Thread(target=interrupt)
    asking.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            elsewhere(hold, place)
    finally:
        signal.signal(signal.SIGUSR1, before)
    asking.join()
    assert ended == [""]
    assert elsewhere(abs, -1) == 1
