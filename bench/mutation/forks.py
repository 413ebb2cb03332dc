"""Runs work in forked processes: each has what its parent has imported, and leaves nothing behind in it."""

import os
import pickle
import resource
import selectors
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

_MEMORY = 2 << 30
_WALL = 30
"""A process that waits for what never comes ends after so many times its limit of CPU: the machine does other things."""


@dataclass
class Ended:
    """What came of it: the work's result, or None and why there is none."""

    result: Any
    why: str
    cpu_s: float


@dataclass
class _Running:
    pid: int
    ends_at: float
    done: Callable[[Ended], None]


class Forks:
    """At most so many processes at once; what each has found is given to its `done`, in this process."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._running: dict[int, _Running] = {}
        self._selector = selectors.DefaultSelector()

    def begin(self, work: Callable[[], Any], cpu_s: float, done: Callable[[Ended], None]) -> None:
        """Begin work that may take so much CPU, once there is room for it."""
        while len(self._running) >= self._most:
            self._wait()
        reads, writes = os.pipe()
        pid = os.fork()
        if pid == 0:
            _work(work, cpu_s, writes)
        os.close(writes)
        self._running[reads] = _Running(pid, time.monotonic() + _WALL * max(cpu_s, 2.0), done)
        self._selector.register(reads, selectors.EVENT_READ)

    def join(self) -> None:
        """Wait for all that is under way."""
        while self._running:
            self._wait()

    def end(self) -> None:
        """End all that is under way."""
        for each in self._running.values():
            with suppress(ProcessLookupError):
                os.killpg(each.pid, signal.SIGKILL)
                os.waitpid(each.pid, 0)

    def _wait(self) -> None:
        for key, _ in self._selector.select(timeout=1.0):
            self._collect(int(key.fd))
        for each in [*self._running.values()]:
            if time.monotonic() > each.ends_at:
                os.killpg(each.pid, signal.SIGKILL)
                each.ends_at += 60.0  # its end of the pipe is closed soon

    def _collect(self, reads: int) -> None:
        ended = self._running.pop(reads)
        self._selector.unregister(reads)
        with os.fdopen(reads, "rb") as file:
            said = file.read()
        _, status, usage = os.wait4(ended.pid, 0)
        with suppress(ProcessLookupError):
            os.killpg(ended.pid, signal.SIGKILL)  # whatever it has started
        why = (
            "" if said else f"ended by {signal.Signals(os.WTERMSIG(status)).name}" if os.WIFSIGNALED(status) else "died"
        )
        ended.done(Ended(pickle.loads(said) if said else None, why, usage.ru_utime + usage.ru_stime))  # noqa: S301  its own child's


def _work(work: Callable[[], Any], cpu_s: float, writes: int) -> None:
    """Do the work in this forked process, and end it. A mutant may never end, or fill the memory."""
    try:
        os.setpgid(0, 0)
        nothing = os.open(os.devnull, os.O_RDWR)
        for stream in range(3):
            os.dup2(nothing, stream)
        resource.setrlimit(resource.RLIMIT_CPU, (int(cpu_s) + 1, int(cpu_s) + 2))
        resource.setrlimit(resource.RLIMIT_DATA, (_MEMORY, _MEMORY))
        found = pickle.dumps(work())
        with os.fdopen(writes, "wb") as file:
            file.write(found)
    finally:
        os._exit(0)
