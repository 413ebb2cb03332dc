"""What pip installs, outside the repository: what is in it, what works without an extra, and what names the extra it lacks."""

import json
import os
import re
import signal
import subprocess
import sys
import tarfile
import time
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.integration.images import ROOT, SITE, install, link, needed

LONGEST_S = 120.0
KAFKA = "kafka://127.0.0.1:1"
FORMS = ["asyncapi", "avsc", "jsonschema", "spark", "dashboards", "alerts", "metrics", "settings", "strimzi", "kafka"]

WORKS: list[list[str]] = [
    ["check"],
    ["config"],
    ["doctor"],
    *(["export", form] for form in FORMS),
    ["graph"],
    ["history", "gift-cards", "ada"],
    ["parked", "list"],
    ["replay"],
    ["schemas", "check"],
    ["schemas", "list"],
    ["sql", "SELECT 1"],
    ["state", "gift-cards", "ada"],
    ["tail"],
    ["topics"],
]
"""What needs no extra but `cli`."""

NEEDS: list[tuple[str, list[str]]] = [
    ("http", ["schemas", "serve"]),
    ("console", ["console"]),
    ("kafka", ["topics", "--log", KAFKA]),
    ("kafka", ["doctor", "--log", KAFKA]),
    ("kafka", ["copy", "--from", "sqlite:///var/shop.db", "--to", KAFKA]),
    ("kafka", ["run", "--log", KAFKA]),
    ("broker", ["broker", "start"]),
    ("simulate", ["simulate", "--schedules", "1"]),
    ("archive", ["topics", "--log", "archive:none"]),
    ("schemas", ["export", "proto"]),
    ("telemetry", ["run", "--metrics-port", "0"]),
    ("live", ["live", "--log", KAFKA]),
    ("mcp", ["mcp"]),
    ("archive", ["analytics", "archive", "--to", "archive"]),
    ("analytics", ["analytics", "audit"]),
    ("broker", ["analytics", "connectors"]),
    ("analytics", ["analytics", "rebuild", "--out", "tables"]),
    ("analytics", ["analytics", "reconcile"]),
    ("analytics", ["analytics", "report"]),
    ("analytics", ["analytics", "sql", "SELECT 1", "--out", "tables"]),
]
"""Which extra a command names that lacks it."""

EXTRAS = sorted({extra for extra, _ in NEEDS})

BRINGS = {
    "analytics": {"analytics", "archive", "broker"},
    "console": {"console", "http"},
    "live": {"live", "http", "kafka", "telemetry", "schemas"},
    "telemetry": {"telemetry", "schemas"},  # its exporters bring Protobuf
}
"""Whose packages an extra brings."""

CLI = ("cli",)

SERVICE = """
import asyncio
from dataclasses import dataclass, replace
from eventlib import Choreography, Decider, Event, Runtime, Service, open_log
from eventlib.queries import StateIndex

class Paid(Event, topic="payments", key="customer", request=True):
    customer: str
    cents: int

@dataclass(frozen=True)
class Account:
    cents: int = 0

accounts = Decider("account", state=Account, key="customer")

@accounts.evolve
def add(account: Account, event: Event) -> Account:
    return replace(account, cents=account.cents + event.cents)

accounts.follows(Paid)
bank = Choreography("bank", [Service("bank", deciders=[accounts])])

async def main() -> None:
    async with open_log("sqlite:///var/bank.db", bank) as log, Runtime(log), StateIndex(log, accounts) as index:
        at = await log.publish(Paid(customer="ada", cents=7))
        assert await index.decided(at.topic, at.partition, at.offset, 60)
        print(index.get("ada").state.cents)

asyncio.run(main())
"""

# Runs commands one after the other in one process, since the start of Python is what takes long.
DRIVER = """
import contextlib, io, json, sys
def run(command):
    program, *rest = command
    if program == "analytics":
        from analytics.cli import run
        return run(rest)
    from eventlib.cli import run
    return run(command)
for command in json.load(sys.stdin):
    out, err = io.TextIOWrapper(io.BytesIO()), io.TextIOWrapper(io.BytesIO())
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = run(command)
    texts = [(stream.flush(), stream.buffer.getvalue().decode())[1] for stream in (out, err)]
    print(json.dumps([code, *texts]), flush=True)
"""


class Installed:
    """The wheel in an environment of its own, and a project of a newcomer's, both far from the repository."""

    def __init__(self, wheel: Path, directory: Path, extras: Sequence[str] = CLI) -> None:
        self.place, self.project, self.home = directory / "venv", directory / "project", directory / "home"
        self.home.mkdir(parents=True)
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", self.place], check=True)
        link(needed(extras), self.place)
        install(wheel, self.place / "bin")

    def started(self, *command: str, packages: str = "", **options: Any) -> "subprocess.Popen[str]":
        """Start a program of the environment, in which `packages` can be imported as well."""
        environment = {"HOME": str(self.home), "PATH": f"{self.place / 'bin'}:{os.environ['PATH']}", "LANG": "C.UTF-8"}
        pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
        where = self.project if self.project.exists() else self.home
        return subprocess.Popen(
            [str(self.place / "bin" / command[0]), *command[1:]],
            cwd=where,
            env={**environment, "PYTHONPATH": packages},
            text=True,
            **{**pipes, **options},
        )

    def done(self, *command: str, stdin: str = "", packages: str = "") -> str:
        """Run a program of the environment, and return what it printed."""
        with self.started(*command, packages=packages) as process:
            try:
                out, err = process.communicate(stdin, timeout=LONGEST_S)
            except subprocess.TimeoutExpired:
                process.kill()
                raise
        assert process.returncode == 0, out + err
        return out

    def commands(self, commands: list[list[str]], packages: str = "") -> Iterator[tuple[list[str], int, str, str]]:
        """Run commands of `eventlib` and `analytics`, and return the exit code and the output of each."""
        lines = self.done("python", "-c", DRIVER, stdin=json.dumps(commands), packages=packages).splitlines()
        for command, line in zip(commands, lines, strict=True):
            code, out, err = json.loads(line)
            yield command, code, out, err


@pytest.fixture(scope="module")
def distributions(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The wheel, and the sdist that it was not made of."""
    place = tmp_path_factory.mktemp("dist")
    subprocess.run([sys.executable, "-m", "hatchling", "build", "-d", place], cwd=ROOT, check=True, capture_output=True)
    ((wheel,), (sdist,)) = place.glob("*.whl"), place.glob("*.tar.gz")
    return wheel, sdist


@pytest.fixture(scope="module")
def installed(distributions: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> Installed:
    """The wheel with its command line, and a project on whose log something has happened."""
    made = Installed(distributions[0], tmp_path_factory.mktemp("installed"))
    assert made.done("eventlib", "--version").startswith("eventlib 0.")
    made.done("eventlib", "new", "gift-cards", "--directory", str(made.project))
    service = made.started("eventlib", "run", stdout=None, stderr=None, stdin=None)
    try:
        data = '{"customer_id": "ada", "units": 3}'
        made.done("eventlib", "publish", "GiftCardsRequested", "--data", data)
        deadline = time.monotonic() + LONGEST_S
        while "GiftCardsGranted" not in made.done("eventlib", "tail"):
            assert time.monotonic() < deadline
    finally:
        service.send_signal(signal.SIGTERM)
        assert service.wait(LONGEST_S) == 0
    return made


def test_no_package_takes_a_common_name(distributions: tuple[Path, Path]) -> None:
    wheel, sdist = distributions
    names = {Path(name).parts[0] for name in zipfile.ZipFile(wheel).namelist()}
    information = f"{'-'.join(wheel.name.split('-')[:2])}.dist-info"
    assert names == {"analytics", "eventlib", information}
    with zipfile.ZipFile(wheel) as content:
        assert {f"{information}/licenses/LICENSE", "eventlib/swagger_ui/swagger-ui.css"} <= {*content.namelist()}
    with tarfile.open(sdist) as archive:
        inside = {Path(name).parts[1] for name in archive.getnames()}
    assert inside == {
        ".gitignore",
        "CHANGELOG.md",
        "LICENSE",
        "PKG-INFO",
        "README.md",
        "analytics",
        "eventlib",
        "pyproject.toml",
    }


def test_the_sdist_makes_the_same_wheel(distributions: tuple[Path, Path], tmp_path: Path) -> None:
    wheel, sdist = distributions
    with tarfile.open(sdist) as archive:
        archive.extractall(tmp_path, filter="data")
    (source,) = tmp_path.iterdir()
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path / "again")]
    subprocess.run(command, cwd=source, check=True, capture_output=True)
    (again,) = (tmp_path / "again").iterdir()
    assert sorted(zipfile.ZipFile(again).namelist()) == sorted(zipfile.ZipFile(wheel).namelist())


def test_without_any_extra_services_run_and_the_command_says_what_it_lacks(
    distributions: tuple[Path, Path], tmp_path: Path
) -> None:
    bare = Installed(distributions[0], tmp_path / "bare", ())
    assert bare.done("python", "-c", SERVICE) == "7\n"
    with bare.started("eventlib", "--version") as command:
        out, err = command.communicate(timeout=LONGEST_S)
    assert (command.returncode, out) == (1, "")
    assert err == "eventlib: this needs the package typer: pip install 'eventlib-sagas[cli]'\n"


@pytest.mark.extended
def test_without_an_extra_everything_works_that_needs_none(installed: Installed) -> None:
    for command, code, out, err in installed.commands(WORKS):
        assert (code, err) == (0, ""), (command, err)
        assert out, command


@pytest.mark.parametrize(
    "extra", ["", *(extra if extra in BRINGS else pytest.param(extra, marks=pytest.mark.extended) for extra in EXTRAS)]
)
def test_what_needs_another_extra_names_it(installed: Installed, extra: str, tmp_path: Path) -> None:
    link(needed([extra] if extra else []) - needed(CLI), tmp_path)
    lacking = [(named, command) for named, command in NEEDS if named not in BRINGS.get(extra, {extra})]
    packages = str(tmp_path / SITE)
    ran = installed.commands([command for _, command in lacking], packages)
    for (named, _), (command, code, _, err) in zip(lacking, ran, strict=True):
        assert code == 1, command
        assert f"eventlib-sagas[{named}" in err, (command, err)
        assert "unforeseen" not in err, command
        assert "Traceback" not in err, command


ALONE = {
    "archive": [["analytics", "archive", "--to", "archive"], ["topics", "--log", "archive:archive"]],
    "schemas": [["export", "proto"]],
}
"""What works with one extra and no other."""


@pytest.mark.parametrize("extra", ALONE)
def test_an_extra_alone_is_enough_for_its_commands(installed: Installed, extra: str, tmp_path: Path) -> None:
    link(needed([extra]) - needed(CLI), tmp_path)
    for command, code, _, err in installed.commands(ALONE[extra], str(tmp_path / SITE)):
        assert (code, re.sub(r"^ +\d+ s  archiving.*\n", "", err)) == (0, ""), command


@pytest.mark.extended
def test_the_analytics_know_an_application_that_is_not_the_shop(installed: Installed, tmp_path: Path) -> None:
    link(needed(["analytics"]) - needed(CLI), tmp_path)
    commands = [
        ["analytics", "rebuild", "--out", "t", "--select", "sagas", "--json"],
        ["analytics", "sql", "SELECT count(*) AS sagas FROM sagas", "--out", "t", "--json"],
    ]
    for command, code, out, err in installed.commands(commands, str(tmp_path / SITE)):
        assert code == 0, (command, err)
        assert '"sagas"' in out, command
