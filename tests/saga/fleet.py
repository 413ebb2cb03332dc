"""The shop as several processes on one log, over HTTP with the outside world, each of which may be killed."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

import httpx

from tests import forked
from tests.saga.shop_runs import EVENTLIB, LONGEST_S, ROOT, ShopLog

SERVICES = (sys.executable, "-m", "services")
_STARTS_S = 90.0


class Fleet:
    """Processes by name: what each runs, and what it wrote to stderr in all its lives."""

    def __init__(self, shop: ShopLog, environment: Mapping[str, str] | None = None) -> None:
        self.shop = shop
        self.kills = 0
        self._environment = dict(environment or {})
        self._commands: dict[str, tuple[str, ...]] = {}
        self._running: dict[str, subprocess.Popen[str]] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Leave nothing behind."""
        for process in self._running.values():
            process.kill()
            process.communicate()

    def start(self, name: str, *command: str) -> None:
        """Start a process, for the first time or again."""
        self._commands[name] = command or self._commands[name]
        environment = {**os.environ, **self._environment, "EVENTLIB_LOG": self.shop.url}
        with self._diary(name).open("a", encoding="utf-8") as diary:
            self._running[name] = forked.Popen(
                self._commands[name], cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=diary, text=True
            )

    def start_simulators(self, url: str, ledger: Path, faults: Mapping[str, Mapping[str, float]], seed: int) -> None:
        """Start the outside world, which answers at a URL."""
        where = ("--port", url.rpartition(":")[2], "--ledger", str(ledger), "--seed", str(seed))
        self.start("simulators", *SERVICES, "simulators", *where)
        set_faults(url, faults)

    def start_services(self, name: str, *options: str) -> None:
        """Start `eventlib run`."""
        self.start(name, EVENTLIB, "run", *options)

    def ready(self, name: str, sentence: str = "Running ") -> None:
        """Wait until a process has said on stderr that it runs."""
        deadline = time.monotonic() + _STARTS_S
        while sentence not in self.diary(name):
            assert self._running[name].poll() is None, self.diary(name)
            assert time.monotonic() < deadline, f"{name} does not start: {self.diary(name)}"
            time.sleep(0.05)

    def kill(self, name: str) -> None:
        """Kill a process at once."""
        process = self._running.pop(name)
        assert process.poll() is None, f"{name} ended by itself: {self.diary(name)}"
        process.send_signal(signal.SIGKILL)
        process.communicate()
        self.kills += 1

    def pause(self, name: str) -> None:
        """Stop a process where it stands, as a machine that hangs does; `go_on` wakes it up."""
        self._running[name].send_signal(signal.SIGSTOP)

    def go_on(self, name: str) -> None:
        """Let a paused process go on as if nothing had been."""
        self._running[name].send_signal(signal.SIGCONT)

    def stop(self, *names: str) -> None:
        """Stop processes as a person does, and expect them to end well."""
        for name in names:
            self._running[name].send_signal(signal.SIGTERM)
        for name in names:
            process = self._running.pop(name)
            process.communicate(timeout=120)
            assert process.returncode in {0, -signal.SIGTERM}, self.diary(name)

    def result(self, name: str) -> str:
        """Wait until a process has ended well, and return what it printed."""
        process = self._running.pop(name)
        printed, _ = process.communicate(timeout=LONGEST_S)
        assert process.returncode == 0, self.diary(name)
        return printed

    def pid(self, name: str) -> int:
        """Return the number of a process."""
        return self._running[name].pid

    def diary(self, name: str) -> str:
        """Return what a process wrote to stderr, in all its lives."""
        return self._diary(name).read_text(encoding="utf-8")

    def _diary(self, name: str) -> Path:
        return self.shop.directory / f"{name}.stderr"


def outside_at(url: str) -> dict[str, str]:
    """Return what tells services where the simulators of the outside world are."""
    return {"SHOP_GATEWAY_URL": f"{url}/gateway", "SHOP_CARRIER_URL": f"{url}/carrier"}


def importing(shop: ShopLog, file: Path, stock_units: int, *options: str) -> tuple[str, ...]:
    """Return the command that imports a file."""
    common = ("--json", "--stock", str(stock_units), "--rejects", str(shop.rejects))
    return (*SERVICES, "import", str(file), *common, *options)


def is_up(url: str) -> bool:
    """Tell whether a server answers."""
    try:
        return httpx.get(url, timeout=2, trust_env=False).status_code == httpx.codes.OK
    except httpx.HTTPError:
        return False


def wait_for(url: str) -> None:
    """Wait until a server answers."""
    deadline = time.monotonic() + _STARTS_S
    while not is_up(url):
        assert time.monotonic() < deadline, f"nobody answers at {url}"
        time.sleep(0.05)


def set_faults(url: str, faults: Mapping[str, Mapping[str, float]]) -> None:
    """Tell the simulators what goes wrong from now on."""
    wait_for(f"{url}/healthz")
    answer = httpx.put(f"{url}/faults", json=faults, timeout=5, trust_env=False)
    assert answer.status_code == httpx.codes.OK, answer.text


def summary_of(printed: str) -> dict[str, Any]:
    """Return the summary that an import has printed."""
    found: dict[str, Any] = json.loads(printed)
    return found
