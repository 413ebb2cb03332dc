"""The newcomer's path: the demo, then the commands of the docs' table, on a machine whose home is empty."""

import inspect
import json
import os
import re
import shlex
import sys
from pathlib import Path

import httpx
from tenacity import Retrying, stop_after_delay, wait_fixed

from eventlib.cli.console import console
from tests import forked
from tests.integration.images import ROOT
from tests.integration.test_installed import DRIVER
from tests.ports import free_port

TABLE = re.search(r"\| to \| run \|\n(.*?)\n\n", (ROOT / "docs" / "how-to" / "operate.md").read_text(), re.DOTALL)
ELSEWHERE = {"watch", "run", "admin", "console", "live", "copy", "pause", "rerun", "reset"}
"""What runs until it is stopped, or changes a log that others read: tests of their own begin with an empty state."""


def _open_console(shown: str, saga: str, environment: dict[str, str]) -> None:
    """Run the console as the demo's last lines tell it, but at a port of the test's own, and look at a saga."""
    told, command = [line.strip() for line in shown.splitlines() if line.startswith(" ")][-2:]
    default = inspect.signature(console).parameters["http"].default
    assert told.endswith(f"open http://127.0.0.1:{default}")
    port = free_port()
    process = forked.Popen([*shlex.split(command), "--http", f"127.0.0.1:{port}"], cwd=ROOT, env=environment)
    try:
        for attempt in Retrying(wait=wait_fixed(0.1), stop=stop_after_delay(60)):
            with attempt:
                page = httpx.get(f"http://127.0.0.1:{port}/saga/{saga}")
                assert (page.status_code, "OrderCompleted" in page.text) == (200, True)
    finally:
        process.terminate()
        assert process.wait(60) == 0


def test_what_the_docs_show_works_after_the_demo(tmp_path: Path) -> None:
    home, url = tmp_path / "home", f"sqlite:///{tmp_path}/shop.db"
    home.mkdir()
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("EVENTLIB", "SHOP", "XDG"))}
    environment = {**kept, "HOME": str(home), "EVENTLIB_LOG": url}

    def done(*command: str, stdin: str = "") -> str:
        finished = forked.run(command, cwd=ROOT, env=environment, input=stdin, capture_output=True, timeout=240)
        assert finished.returncode == 0, finished.stdout + finished.stderr
        return finished.stdout

    shown = done(sys.executable, "-m", "services", "demo", "--orders", "60", "--seed", "7", "--log", url)
    key = re.search(r"eventlib saga (\S+)", shown)
    assert key is not None
    walk = [
        ["saga", key[1], "--tree"],
        ["state", "order", key[1]],
        ["history", "order", key[1]],
        ["topics"],
        ["tail", "orders"],
        ["check"],
        ["graph", "--out", str(tmp_path / "shop.svg"), "--log", url],
        ["schemas", "check"],
        ["schemas", "list"],
        ["export", "asyncapi"],
        ["replay"],
        ["prove", "deploy"],
        ["simulate", "--schedules", "2"],
        ["config"],
        ["doctor", "--deep"],
        ["backup", "--to", str(tmp_path / "backup.db")],
        ["repair", "--dry-run"],
        ["deployments"],
        ["publish", "ProductDelisted", "--data", '{"sku": "none"}'],
        ["parked", "list"],
        ["sagas", "list", "--where", "status = 'open'"],
        ["analytics", "archive", "--to", str(tmp_path / "archive")],
    ]
    lines = done(sys.executable, "-c", DRIVER, stdin=json.dumps(walk)).splitlines()
    for command, line in zip(walk, lines, strict=True):
        code, _, err = json.loads(line)
        assert code == 0, (command, err)
    _open_console(shown, key[1], environment)
    assert [*home.iterdir()] == []  # nothing was fetched
    assert TABLE is not None
    named = {*re.findall(r"`(?:\S+=\S+ )*eventlib (\w+)", TABLE[1]), *re.findall(r"· `(\w+) \w+ KEY`", TABLE[1])}
    assert named <= {command[0] for command in walk} | ELSEWHERE | {"status"}
