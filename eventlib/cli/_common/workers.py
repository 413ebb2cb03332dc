"""`eventlib run --workers`: supervises processes that run the same services: restarts and stops them."""

import asyncio
import signal
import sys
import time
from asyncio.subprocess import PIPE, STDOUT, Process
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from eventlib.errors import EventlibError
from eventlib.telemetry.logs import is_json, tell

_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.5, 30.0


_STEADY_S = 60.0


_CHUNK_BYTES = 1 << 16


_WELL = {0, -signal.SIGTERM}
"""The exit codes of a worker that was stopped: by itself, or before it could handle the signal."""


class Worker:
    """One worker, across its restarts."""

    def __init__(self, number: int, command: Sequence[str]) -> None:
        self.number = number
        self._command = command
        self._process: Process | None = None
        self._stop = asyncio.Event()
        self._crashes = 0

    async def run(self) -> int:
        """Run it until it is stopped, and return its exit code then: 0 is success."""
        while True:
            began = time.monotonic()
            code = await self._live()
            if self._stop.is_set():
                return code
            self._crashes = 1 if time.monotonic() - began > _STEADY_S else self._crashes + 1
            pause_s = pause_after(self._crashes)
            tell(f"worker {self.number} {_ending(code)}; it restarts in {pause_s:g} s")
            with suppress(TimeoutError):
                async with asyncio.timeout(pause_s):
                    await self._stop.wait()
                return 0

    def stop(self) -> None:
        """Ask it to finish the inputs in progress, and to end."""
        self._stop.set()
        if self._process is not None:
            with suppress(ProcessLookupError):
                self._process.terminate()

    async def _live(self) -> int:
        # A session of its own: Ctrl-C at a terminal goes to the supervisor, which passes it on. Its standard input stays
        # open as long as the supervisor lives.
        self._process = process = await asyncio.create_subprocess_exec(
            *self._command, stdin=PIPE, stdout=PIPE, stderr=STDOUT, start_new_session=True
        )
        tell(f"worker {self.number} is process {process.pid}")
        if self._stop.is_set():
            self.stop()  # it was stopped while it started
        try:
            await self._hand_on(process)
            return await process.wait()
        finally:
            if process.stdin is not None:
                process.stdin.close()

    async def _hand_on(self, process: Process) -> None:
        """Print its output, line by line, with its number in front."""
        assert process.stdout is not None  # noqa: S101  it was asked for
        rest = b""
        while chunk := await process.stdout.read(_CHUNK_BYTES):
            *lines, rest = (rest + chunk).split(b"\n")
            for line in lines:
                self._print(line)
        if rest:
            self._print(rest)

    def _print(self, line: bytes) -> None:
        number = "" if is_json() else f"[{self.number}] "
        sys.stderr.write(f"{number}{line.decode(errors='replace')}\n")
        sys.stderr.flush()


async def supervise(commands: Sequence[Sequence[str]], stop: "asyncio.Future[None]") -> None:
    """Run a worker for each command until `stop` is done. Raises: EventlibError when one of them then ended with an error."""
    workers = [Worker(number, command) for number, command in enumerate(commands, 1)]
    lives = [asyncio.create_task(worker.run(), name=f"worker {worker.number}") for worker in workers]
    watched: list[asyncio.Future[Any]] = [stop, *lives]
    await asyncio.wait(watched, return_when=asyncio.FIRST_COMPLETED)
    tell("Stopping all workers: they finish the inputs in progress.")
    for worker in workers:
        worker.stop()
    ended = await asyncio.gather(*lives, return_exceptions=True)
    badly = [
        f"worker {worker.number} {_ending(code) if isinstance(code, int) else f'failed: {code!r}'}"
        for worker, code in zip(workers, ended, strict=True)
        if code not in _WELL
    ]
    if badly:
        raise EventlibError(f"not all workers have stopped cleanly: {', '.join(badly)}")


def pause_after(crashes: int) -> float:
    """Return the pause (s) after this many crashes in a row: it doubles each time."""
    return min(_FIRST_PAUSE_S * float(1 << min(crashes - 1, 10)), _LONGEST_PAUSE_S)


def _ending(code: int) -> str:
    return f"was ended by {signal.Signals(-code).name}" if code < 0 else f"ended with code {code}"
