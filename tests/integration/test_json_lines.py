"""With --json every command prints what its page in the reference says: one object a line, with the fields named there."""

import asyncio
import json
import re
import shlex
from pathlib import Path
from shutil import copytree

import pytest

from eventlib import open_log
from eventlib.cli.app import PANELS
from eventlib.operations.deployments import record_deployments
from services import shop
from tests.commands import ended, said

REFERENCE = (Path(__file__).parents[2] / "docs/reference/cli.md").read_text(encoding="utf-8")
SECTION = re.compile(r"^### ([a-z -]+)\n(.*?)(?=^##)", re.MULTILINE | re.DOTALL)
JSON = {
    name: found[1] for name, text in SECTION.findall(REFERENCE) if (found := re.search(r"\*\*JSON:\*\* (.*)", text))
}
READING = {
    "acts": "acts",
    "check": "check",
    "config": "config",
    "deployments": "deployments",
    "doctor": "doctor",
    "export": "export dashboards",
    "graph": "graph",
    "history": "history payment broken",
    "parked list": "parked list",
    "parked show": "parked show broken",
    "pause": "pause order --dry-run",
    "prove in-flight": "prove in-flight --workers 1",
    "repair": "repair --dry-run",
    "replay": "replay",
    "rerun list": "rerun list",
    "saga": "saga broken",
    "sagas attributes": "sagas attributes",
    "sagas list": "sagas list",
    "schemas check": "schemas check",
    "schemas diff": "schemas diff OrderPlaced OrderCompleted",
    "schemas list": "schemas list",
    "sql": "sql 'SELECT saga FROM sagas'",
    "state": "state payment broken",
    "status": "status",
    "tail": "tail",
    "topics": "topics",
}
"""Commands that only read, as they are given; the others' outputs are tested where they write."""


def fields_of(text: str) -> list[str]:
    """Return the fields that the reference names of each object, without what is in them."""
    plain = re.sub(r"\([^()]*\)", "", text)
    listed = plain.partition(":")[2] or plain
    return re.findall(r"`(\w+)`", re.split(r"[.;]|, each with|; with", listed)[0])


@pytest.fixture(scope="module")
def url(filled: str, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The URL of a copy of the shop's log, with acts and a deployment on it."""
    copy = copytree(Path(filled.removeprefix("sqlite:///")).parent, tmp_path_factory.mktemp("acted") / "log")
    url = f"sqlite:///{copy}/shop.db"
    said("pause", "payment", "--reason", "the bank migrates", "--log", url)
    said("rerun", "begin", "payment", "payment-2", "--log", url)
    asyncio.run(deployed(url))
    return url


async def deployed(url: str) -> None:
    async with open_log(url, shop) as log:
        await record_deployments(log, ["order"], "v1")


@pytest.mark.parametrize("command", READING)
def test_each_line_is_an_object_with_the_fields_of_the_reference(
    command: str, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EVENTLIB_LOG", url)
    done, about = ended(*shlex.split(READING[command]), "--json"), JSON[command]
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert [type(line) for line in lines] == [dict] * len(lines)
    assert len(lines) == 1 if about.startswith("one object") else lines or command == "check", done.stderr
    named = fields_of(about)
    assert named
    assert [name for line in lines for name in named if name not in line] == []


def test_no_command_that_only_reads_is_left_out() -> None:
    asks = {name for commands in PANELS.values() for name, command in commands.items()}
    assert [name for name in JSON if name.split()[0] not in asks] == []
    writing = {
        "backup",
        "broker",
        "copy",
        "forget",
        "live",
        "outbox",
        "pack",
        "publish",
        "restore",
        "subjects",
        "token",
    }
    writing |= {
        "watch",
        "reset",
        "reset-clock",
        "resume",
        "rerun",
        "simulate",
        "sink",
        "webhook",
        "parked",
        "prove",
        "schemas",
    }
    assert [name for name in JSON if name not in READING and name.split()[0] not in writing] == []
