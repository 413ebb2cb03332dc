"""A forgotten person stays so: whatever kills the command, whatever is restored, and each is told the same."""

import asyncio
import json
import os
import signal
import sys
from collections.abc import Callable
from getpass import getuser
from pathlib import Path

import pytest

from eventlib import open_log
from eventlib.operations.erasure import receipts, resume
from eventlib.personal import ERASED
from eventlib.personal.receipt import NOT_COVERED
from eventlib.queries.state import state_of
from eventlib.replay import replay
from examples.letters import app
from tests import forked
from tests.commands import ended, said
from tests.integration.planted_people import erased, files_in, key_store, leaks, person, posted, streams
from tests.postgres import PASSWORD, Postgres

APP = ("--app", "examples.letters:app")


async def test_forget_prints_a_receipt_and_the_same_one_again(letters_url: str) -> None:
    async with open_log(letters_url, app) as log:
        await posted(log, 0, 5)
    arguments = ["--reason", "asked by mail", "--by", "ada", "--log", letters_url, *APP, "--json"]
    shown = json.loads(said("forget", "c5", "--dry-run", *arguments[4:]))
    assert "would be erased: its key would be destroyed" in said("forget", "c5", "--dry-run", *arguments[4:-1])
    moved = ended("forget", "c5", "--as-previewed", "0123456789ab", *arguments)
    assert (moved.returncode, "the log has moved on" in moved.stderr) == (1, True)
    receipt = json.loads(said("forget", "c5", "--as-previewed", shown["as_previewed"], *arguments))
    assert (shown["has_key"], shown["erased_at"], shown["records"]) == (True, "", receipt["records"])
    again = json.loads(said("forget", "c5", "--dry-run", *arguments[4:]))
    assert (again["has_key"], again["erased_at"]) == (False, receipt["erased_at"])
    assert receipt["records"] == {"letter.requests": 1, "letters.parked": 1}
    assert (receipt["subject"], receipt["reason"], receipt["by"]) == ("c5", "asked by mail", f"os:{getuser()} (ada)")
    assert receipt["had_key"]
    assert receipt["not_covered"] == list(NOT_COVERED)
    assert json.loads(said("forget", "c5", *arguments)) == receipt
    never = json.loads(said("forget", "unknown", *arguments))
    assert not never["had_key"]
    events = [json.loads(line) for line in said("tail", "_erasures", *arguments[4:]).splitlines()]
    assert [each["type"] for each in events] == ["SubjectErasureRequested", "SubjectErased"] * 2
    assert ended("forget", "c0", "--reason", " ", *arguments[4:]).returncode != 0


_KILLED = """
import asyncio, os, signal, sys
from eventlib.cli import run
from eventlib.operations import erasure
from eventlib.personal import ring, sqlite_store
step, arguments = sys.argv[1], sys.argv[2:]
def die(*_a, **_k): os.kill(os.getpid(), signal.SIGKILL)
real = erasure._write
async def write(log, kind, receipt):
    if step == "before " + kind: die()
    await real(log, kind, receipt)
    if step == "after " + kind: die()
erasure._write = write
destroy = sqlite_store._destroy
if step == "in the transaction": sqlite_store._destroy = lambda *a: (destroy(*a), die())
if step == "before the truncation": sqlite_store.SqliteKeyStore._truncate = die
sys.exit(run(arguments))
"""


@pytest.mark.parametrize(
    "step",
    ["before SubjectErasureRequested", "after SubjectErasureRequested", "in the transaction", "before the truncation",
     "before SubjectErased", "after SubjectErased"],
)  # fmt: skip
async def test_a_forget_killed_at_any_step_is_completed_by_the_next(
    tmp_path: Path, letters_url: str, step: str
) -> None:
    async with open_log(letters_url, app) as log:
        await posted(log, 0, 1)
    with key_store(letters_url) as store:
        row = store.of_subject("c0")
        assert row is not None
    arguments = ["forget", "c0", "--reason", "asked", "--log", letters_url, *APP, "--json"]
    killed = await asyncio.to_thread(
        forked.run, [sys.executable, "-c", _KILLED, step, *arguments], capture_output=True, text=True
    )
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    async with open_log(letters_url, app) as log:
        with key_store(letters_url) as store:
            await resume(log.port, store)
        if step.startswith("before SubjectErasureRequested"):
            await erased(log, letters_url, "c0")
        (receipt,) = await receipts(log.port)
        assert (receipt.subject, receipt.had_key) == ("c0", True)
        assert (await replay(log)).same
        assert (await state_of(log, "letter", "l0")).state.name == ERASED
        assert (await state_of(log, "letter", "l1")).state.name == person(1)["name"]
    assert all(row.wrapped not in data for path in files_in(tmp_path) for data in streams(path))
    assert json.loads(said(*arguments))["erasure"] == receipt.erasure


async def test_restored_keys_lack_who_was_erased_since(tmp_path: Path, letters_url: str) -> None:
    await backed_up_and_restored(tmp_path, letters_url, (tmp_path / "data" / "letters.db.keys").unlink)


async def test_keys_in_postgresql_are_backed_up_and_restored_by_the_same_commands(
    tmp_path: Path, letters_url: str, postgres: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    schema = "letters_restored"
    postgres.run(f"CREATE SCHEMA {schema}")
    monkeypatch.setenv("PGPASSWORD", PASSWORD)
    monkeypatch.setenv("EVENTLIB_PERSONAL_KEYS", f"{postgres.url}?options=-csearch_path%3D{schema}")
    await backed_up_and_restored(
        tmp_path, letters_url, lambda: postgres.run(f"DROP SCHEMA {schema} CASCADE; CREATE SCHEMA {schema}")
    )
    assert not (tmp_path / "data" / "letters.db.keys").exists()


async def backed_up_and_restored(tmp_path: Path, url: str, lose_keys: Callable[[], object]) -> None:
    where = ["--log", url, *APP]
    async with open_log(url, app) as log:
        await posted(log, 0, 1)
    copy = tmp_path / "keys.copy"
    said("subjects", "backup", str(copy), "--log", url)
    assert copy.stat().st_mode & 0o077 == 0
    said("forget", "c0", "--reason", "asked", *where)
    lose_keys()
    assert json.loads(said("subjects", "restore", str(copy), "--json", *where)) == {"erased_again": 1}
    async with open_log(url, app) as log:
        assert (await state_of(log, "letter", "l0")).state.name == ERASED
        assert (await state_of(log, "letter", "l1")).state.name == person(1)["name"]


async def test_a_restored_log_learns_the_erasures_again(tmp_path: Path, letters_url: str) -> None:
    where = ["--log", letters_url, *APP]
    async with open_log(letters_url, app) as log:
        await posted(log, 0, 1)
    said("backup", "--to", str(tmp_path / "backup.db"), "--log", letters_url)
    said("forget", "c0", "--reason", "asked", *where)
    said("restore", "--from", str(tmp_path / "backup.db"), "--to", letters_url, "--force", "--reason", "drill")
    async with open_log(letters_url, app) as log:
        assert [each.subject for each in await receipts(log.port)] == ["c0"]
        assert (await state_of(log, "letter", "l0")).state.name == ERASED
    assert leaks(tmp_path) == []
    assert os.environ["EVENTLIB_PERSONAL_MASTER"]
