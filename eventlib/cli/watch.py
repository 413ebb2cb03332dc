"""`eventlib watch`: the services, their sagas and what is parked, live in a terminal, or a snapshot after the other in a pipe."""

import asyncio
import os
import signal
import sys
import tty
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Annotated

from rich.console import RenderableType
from rich.live import Live

from eventlib.cli._common import output
from eventlib.cli._common.options import JsonOption, LogOptions, option, run_on_log
from eventlib.cli._common.status_screen import status_screen
from eventlib.config.settings import runtime_config
from eventlib.errors import RetryableError
from eventlib.eventlog import EventLog
from eventlib.ground.posix import termios
from eventlib.operations.as_json import status_json
from eventlib.operations.complaints import Limits, complaints
from eventlib.operations.status import Status, StatusReader


def watch(
    log_options: LogOptions,
    every: Annotated[float, option("--every", "SECONDS", "The refresh interval.", min=0.1)] = 1.0,
    as_json: JsonOption = False,
) -> None:
    """Watch services, sagas by state and the newest causes of what is parked.

    A terminal shows them until q or Ctrl-C, as large as it is. In a pipe each
    interval prints what `eventlib status --sagas` does, with --json as one
    object. While the log cannot be reached, the last status stays, with the
    reason. It reads only the log, also while no service runs.

    [dim]Examples:[/dim]
      eventlib watch
      eventlib watch --every 10 >> overview.txt
      eventlib watch --json | jq -c '[.at, .healthy, .complaints]'
    """
    watch_status(log_options, Limits(), every, sagas=True, as_json=as_json)


def watch_status(
    log_options: LogOptions, limits: Limits, every_s: float, *, sagas: bool, as_json: bool = False
) -> None:
    """Show the status of services until q, Ctrl-C or SIGTERM, with what they catch up per second."""

    async def watching(log: EventLog) -> None:
        reader = StatusReader(log, with_sagas=sagas, state_dir=runtime_config().state_dir)
        before: Status | None = None
        stop = asyncio.Event()
        with _shown(stop) as (show, is_live):
            while not stop.is_set():
                try:
                    status, trouble = await reader.read(), []
                except RetryableError as error:
                    if before is None:
                        raise
                    status, trouble = before, [f"the log cannot be read now: {error}"]
                found = [*trouble, *complaints(status, limits)]
                if as_json:
                    output.print_json([status_json(status, found)])
                else:
                    show(status_screen(status, found, _caught_up_per_s(before, status), brief=is_live))
                before = status
                with suppress(TimeoutError):
                    await asyncio.wait_for(stop.wait(), every_s)

    run_on_log(log_options, watching)


@contextmanager
def _shown(stop: asyncio.Event) -> Iterator[tuple[Callable[[RenderableType], None], bool]]:
    """Yield what shows a status, and whether it replaces the one before; a terminal is left as it was."""
    console, loop = output.terminal(), asyncio.get_running_loop()
    if not console.is_terminal:
        yield lambda screen: console.print(screen, end="\n\n"), False
        return
    with Live(console=console, screen=True, auto_refresh=False) as live, _keys(stop):
        for number, act in ((signal.SIGTERM, stop.set), (signal.SIGWINCH, live.refresh)):
            loop.add_signal_handler(number, act)
        yield lambda screen: live.update(screen, refresh=True), True


@contextmanager
def _keys(stop: asyncio.Event) -> Iterator[None]:
    """Stop at q, which needs no Enter."""
    if not sys.stdin.isatty():
        yield
        return

    def pressed() -> None:
        if os.read(terminal, 1) in {b"q", b"Q", b""}:
            stop.set()

    terminal, loop = sys.stdin.fileno(), asyncio.get_running_loop()
    before = termios.tcgetattr(terminal)
    tty.setcbreak(terminal)
    loop.add_reader(terminal, pressed)
    try:
        yield
    finally:
        loop.remove_reader(terminal)
        termios.tcsetattr(terminal, termios.TCSADRAIN, before)


def _caught_up_per_s(before: Status | None, now: Status) -> Mapping[str, float]:
    """Return each service's inputs handled per second between two snapshots: new inputs less the growth of its lag."""
    if before is None:
        return {}
    seconds = max((now.at - before.at).total_seconds(), 0.001)
    found = dict[str, float]()
    for service in dict.fromkeys(task.service for task in now.tasks):
        left = sum(task.lag for task in before.of(service)) - sum(task.lag for task in now.of(service))
        found[service] = left / seconds
    return found
