"""`eventlib new`: what it writes is clean, tested and runs at once, alone or beside the shop; it overwrites nothing."""

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest
from tenacity import Retrying, stop_after_delay, wait_fixed

from eventlib.cli import run
from tests import forked
from tests.commands import NO_PLUGINS, known_types
from tests.ports import free_port

BIN = Path(sys.executable).parent
LONGEST_S = 120.0
SHOP = """
from dataclasses import dataclass
from typing import Never
from eventlib import Choreography, Decider, Event, Service

class Opened(Event, topic="openings", key="k", request=True):
    k: str

@dataclass(frozen=True)
class State:
    count: int = 0

doors = Decider("door", state=State, key="k")

@doors.on(Opened)
def note(state: State, opened: Opened) -> list[Never]:
    return []

app = Choreography("house", [Service("door", deciders=[doors])])
"""
Refused = Callable[..., str]


def done(directory: Path, *command: str) -> str:
    """Run a command in a directory, as a person does, and return what it prints."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("EVENTLIB")}
    environment["PYTEST_ADDOPTS"] = NO_PLUGINS
    program, *rest = command
    line = [sys.executable, "-m", program, *rest] if program == "pytest" else [str(BIN / program), *rest]
    finished = (forked.run if program in {"eventlib", "pytest"} else subprocess.run)(
        line,
        cwd=directory,
        env=environment,
        capture_output=True,
        text=True,
        timeout=LONGEST_S,
    )
    assert finished.returncode == 0, finished.stdout + finished.stderr
    return finished.stdout


def are_clean(directory: Path, *packages: str, tests: int = 2) -> None:
    rules = ["--select", "ALL", "--ignore", "D203,D213,COM812,CPY001,S101,TID252", "--line-length", "120"]
    done(directory, "ruff", "check", *rules, *packages)
    done(directory, "ruff", "format", "--check", "--line-length", "120", *packages)
    known = known_types(directory.with_name("known types"))
    done(directory, "mypy", "--strict", "--warn-unreachable", f"--cache-dir={known}", *packages)
    assert f"{tests * len(packages)} passed" in done(directory, "pytest", "-q", "-W", "ignore", *packages)
    for package in packages:
        assert "is well wired" in done(directory, "eventlib", "check", "--app", f"{package}.app:app")


@pytest.fixture
def refused(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Refused:
    """Run `eventlib new` where it must fail, and return its sentence."""
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr(sys, "modules", {**sys.modules})

    def refuse(directory: Path, name: str, *options: str) -> str:
        monkeypatch.chdir(directory)
        assert run(["new", name, *options]) == 1
        return capsys.readouterr().err

    return refuse


def test_the_first_of_a_project_and_one_beside_it_are_clean_and_their_tests_pass(tmp_path: Path) -> None:
    told = done(tmp_path, "eventlib", "new", "gift-cards-2-go", "--directory", "project")
    assert "cd project" in told
    project, longest = tmp_path / "project", "abcdefghijklmnopqrst"
    before = (project / "pyproject.toml").read_text()
    done(project / "gift_cards_2_go", "eventlib", "new", longest)
    assert (project / "pyproject.toml").read_text() == before
    are_clean(project, "gift_cards_2_go", longest)


def test_what_was_written_says_nothing_of_the_skeleton(tmp_path: Path) -> None:
    done(tmp_path, "eventlib", "new", "gift-cards")
    texts = [path.read_text() for path in tmp_path.rglob("*") if path.is_file() and path.suffix in {".py", ".toml"}]
    assert len(texts) == 7
    assert not any(
        re.search(r"(?<!some)(?<!any)(?<!every)(?<!no)(?<!every)thing", text, re.IGNORECASE) for text in texts
    )


def test_beside_others_it_joins_them_and_changes_nothing(tmp_path: Path) -> None:
    (tmp_path / "house.py").write_text(SHOP)
    told = done(tmp_path, "eventlib", "new", "loyalty", "--app", "house:app")
    assert "--app loyalty.app:app --service loyalty" in told
    assert not (tmp_path / "pyproject.toml").exists()
    graph = done(tmp_path, "eventlib", "graph", "--app", "loyalty.app:app")
    assert '["door"]' in graph
    assert '["loyalty"]' in graph


def test_the_commands_that_it_prints_work_in_order(tmp_path: Path) -> None:
    told = done(tmp_path, "eventlib", "new", "gift-cards")
    commands = [line.strip() for line in told.splitlines() if line.startswith("  eventlib")]
    service = forked.Popen([str(BIN / "eventlib"), *commands[0].split()[1:]], cwd=tmp_path)
    try:
        assert commands[1].startswith("eventlib publish GiftCardsRequested --data '")
        data = commands[1].split("'")[1]
        done(tmp_path, "eventlib", "publish", "GiftCardsRequested", "--data", data)
        deadline = time.monotonic() + LONGEST_S
        while "GiftCardsGranted" not in done(tmp_path, "eventlib", "tail"):
            assert time.monotonic() < deadline
        state = json.loads(done(tmp_path, *commands[2].split(), "--json"))["state"]
        assert state == {"units": json.loads(data)["units"]}
    finally:
        service.send_signal(signal.SIGTERM)
        assert service.wait(LONGEST_S) == 0


def test_a_saga_is_clean_and_its_tests_pass(tmp_path: Path) -> None:
    told = done(tmp_path, "eventlib", "new", "abcdefghijklmnopqrst", "--saga")
    are_clean(tmp_path, "abcdefghijklmnopqrst", tests=4)
    assert 'dependencies = ["eventlib-sagas[cli,http]"]' in (tmp_path / "pyproject.toml").read_text()
    texts = [path.read_text() for path in tmp_path.rglob("*.py")]
    assert not any(re.search(r"(?<!no)(?<!every)thing", text, re.IGNORECASE) for text in texts)
    assert "uvicorn abcdefghijklmnopqrst.bank:bank --port 8600" in told


def test_the_commands_that_a_saga_prints_work_with_its_bank_over_http(tmp_path: Path) -> None:
    told = done(tmp_path, "eventlib", "new", "trips", "--saga")
    commands = [shlex.split(line) for line in told.splitlines() if re.match("  (uvicorn|eventlib|curl) ", line)]
    bank, api = free_port(), free_port()
    environment = {**os.environ, "BANK_URL": f"http://127.0.0.1:{bank}/"}
    served = [[sys.executable, "-m", *commands[0][:-1], str(bank)], [*commands[1][:-1], str(api)]]
    running = [forked.Popen(each, cwd=tmp_path, env=environment) for each in served]
    try:
        with httpx.Client(base_url=f"http://127.0.0.1:{api}/", timeout=LONGEST_S) as client:
            for attempt in Retrying(wait=wait_fixed(0.1), stop=stop_after_delay(LONGEST_S)):
                with attempt:
                    client.get("readyz").raise_for_status()
            assert commands[2][:2] == ["curl", "-s"]
            order_id = client.post("orders", json=json.loads(commands[2][-1])).json()["order_id"]
            client.post(httpx.URL(commands[3][-1].replace("ORDER_ID", order_id)).path).raise_for_status()
            for attempt in Retrying(wait=wait_fixed(0.1), stop=stop_after_delay(LONGEST_S)):
                with attempt:
                    assert client.get(f"orders/{order_id}").json() == {"stage": "completed", "is_confirmed": True}
        shown = done(tmp_path, *(each.replace("ORDER_ID", order_id) for each in commands[4]))
        assert "■ OrderCompleted" in shown
    finally:
        for process in running:
            process.send_signal(signal.SIGTERM)
        assert [process.wait(LONGEST_S) for process in running][1] == 0
    assert (tmp_path / "var" / "trips.db").exists()


def test_a_saga_does_not_join_an_application(tmp_path: Path, refused: Refused) -> None:
    (tmp_path / "house.py").write_text(SHOP)
    (tmp_path / "pyproject.toml").write_text('[tool.eventlib]\napp = "house:app"\n')
    assert "name an empty --directory, or leave --saga out" in refused(tmp_path, "trips", "--saga")


def test_it_overwrites_nothing(tmp_path: Path, refused: Refused) -> None:
    (tmp_path / "loyalty").mkdir()
    (tmp_path / "loyalty" / "mine.py").write_text("x = 1\n")
    assert "loyalty exists already, and nothing is overwritten" in refused(tmp_path, "loyalty")
    assert [path.name for path in tmp_path.rglob("*")] == ["loyalty", "mine.py"]


def test_a_project_without_an_application_keeps_its_settings(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "mine"\n')
    assert "--app loyalty.app:app" in done(tmp_path, "eventlib", "new", "loyalty")
    assert (tmp_path / "pyproject.toml").read_text() == '[project]\nname = "mine"\n'
    assert "is well wired" in done(tmp_path, "eventlib", "check", "--app", "loyalty.app:app")


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("Loyalty", "'Loyalty' is not a valid service name: lower-case letters, digits and '-'"),
        ("../up", "is not a valid service name"),
        ("a-", "is not a valid service name"),
        ("json", "a package named 'json' would hide Python's"),
        ("class", "a package named 'class' would hide Python's"),
        ("eventlib", "a package named 'eventlib' would hide"),
        ("abcdefghijklmnopqrstu", "has 21 letters, and 20 is the most"),
    ],
)
def test_a_name_that_cannot_be(tmp_path: Path, refused: Refused, name: str, sentence: str) -> None:
    assert sentence in refused(tmp_path, name)
    assert list(tmp_path.iterdir()) == []


def test_a_name_that_is_taken(tmp_path: Path, refused: Refused) -> None:
    (tmp_path / "house.py").write_text(SHOP)
    (tmp_path / "pyproject.toml").write_text('[tool.eventlib]\napp = "house:app"\n')
    assert "house has a service, a decider or events named 'door'" in refused(tmp_path, "door")
