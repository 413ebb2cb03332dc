"""Personal data is ciphertext wherever it is written, and gone from everywhere once its subject is forgotten."""

import asyncio
import json
import os
import signal
import sys
from collections.abc import Callable
from getpass import getuser
from pathlib import Path

import pytest

from eventlib import Runtime, open_log
from eventlib.errors import WiringError
from eventlib.operations.dry_run import dry_run_of
from eventlib.operations.erasure import receipts, resume
from eventlib.operations.parked_commands import event_with
from eventlib.operations.skip import preview_skip
from eventlib.personal import ERASED, MASKED
from eventlib.personal.base import NoRight
from eventlib.personal.receipt import NOT_COVERED
from eventlib.queries.parked import parkings
from eventlib.queries.state import state_of
from eventlib.replay import replay
from examples.letters import LetterSubmitted, StampRequested, app
from tests import forked
from tests.commands import ended, said
from tests.integration.letters_app import FlakyPost
from tests.integration.planted_people import (
    erased,
    files_in,
    key_store,
    leaks,
    letter,
    person,
    posted,
    settled,
    streams,
)
from tests.operators import preview_edit, preview_retries
from tests.postgres import PASSWORD, Postgres

PEOPLE = 24
APP = ("--app", "examples.letters:app")


async def test_services_write_ciphertext_and_read_plain_text(tmp_path: Path, letters_url: str) -> None:
    async with open_log(letters_url, app) as log:
        await posted(log, *range(PEOPLE))
        state = (await state_of(log, "letter", "l1")).state
        assert (state.name, state.email, state.status) == (person(1)["name"], person(1)["email"], "posted")
        assert {each.key for each in await parkings(log)} == {f"l{n}" for n in range(PEOPLE) if n % 6 == 5}
        assert leaks(tmp_path) == []
        report = await replay(log)
        assert report.same, report.first


async def test_after_an_erasure_nothing_differs_and_the_fields_are_erased(
    tmp_path: Path, letters_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_log(letters_url, app) as log:
        await posted(log, *range(PEOPLE))
        await erased(log, letters_url, *(f"c{number}" for number in range(0, PEOPLE, 2)))
        report = await replay(log)
        assert report.same, report.first
    async with open_log(letters_url, app) as log:
        assert (await state_of(log, "letter", "l2")).state.name == ERASED
        assert (await state_of(log, "letter", "l3")).state.name == person(3)["name"]
        await log.publish(LetterSubmitted(letter_id="again", customer_id="c2", **person(2)))
        await settled(log)
        assert (await state_of(log, "letter", "again")).state.name == ERASED
        report = await replay(log)
        assert report.same, report.first
    for personal in (False, True):
        async with open_log(letters_url, app, read_only=True, personal=personal) as log:
            report = await replay(log)
            assert report.same, report.first
    monkeypatch.setenv("EVENTLIB_PERSONAL_KEYS", f"sqlite:///{tmp_path}/elsewhere.keys")  # an auditor without any keys
    async with open_log(letters_url, app, read_only=True) as log:
        report = await replay(log)
        assert report.same, report.first
    assert leaks(tmp_path) == []


async def test_an_erasure_while_services_run_reaches_them(tmp_path: Path, letters_url: str) -> None:
    async with open_log(letters_url, app) as log, open_log(letters_url, app, read_only=True) as other:
        post = FlakyPost()
        async with Runtime(log, ports={"post": post}) as runtime, asyncio.timeout(120):
            for number in range(PEOPLE):
                await log.publish(letter(number))
                if number % 2:
                    await erased(other, letters_url, f"c{number}")
            await runtime.idle()
        assert (await replay(log)).same
    assert leaks(tmp_path) == []
    async with open_log(letters_url, app) as log:
        for number in range(0, PEOPLE, 2):
            assert (await state_of(log, "letter", f"l{number}")).state.name == person(number)["name"]
        stamps = [await log.decode_now(r) for p in range(8) for r in await log.port.read("letters", p, 0, 1_000)]
        names = {each.customer_id: each.name for each in stamps if isinstance(each, StampRequested)}
    assert {names[f"c{n}"] for n in range(1, PEOPLE, 2) if f"c{n}" in names} == {ERASED}


async def test_a_reader_without_the_right_sees_a_mask(letters_url: str) -> None:
    async with open_log(letters_url, app) as log:
        await posted(log, 0, 1)
        await erased(log, letters_url, "c0")
    arguments = ["--log", letters_url, *APP, "--json"]
    rows = [json.loads(line)["data"] for line in said("tail", "letter.requests", *arguments).splitlines()]
    assert {row["customer_id"]: row["name"] for row in rows} == {"c0": ERASED, "c1": MASKED}
    rows = [json.loads(line)["data"] for line in said("tail", "letter.requests", "--personal", *arguments).splitlines()]
    assert {row["customer_id"]: row["name"] for row in rows} == {"c0": ERASED, "c1": person(1)["name"]}
    assert json.loads(said("state", "letter", "l1", *arguments))["state"]["name"] == MASKED
    assert person(1)["name"] not in said("saga", "l1", *arguments) + said("history", "letter", "l1", *arguments)


async def test_without_a_master_key_nothing_is_written(letters_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("EVENTLIB_PERSONAL_MASTER")
    with pytest.raises(WiringError, match="EVENTLIB_PERSONAL_MASTER"):
        async with open_log(letters_url, app):
            pass


async def test_a_preview_makes_no_key(letters_url: str) -> None:
    async with open_log(letters_url, app) as log:
        await posted(log, 5)
        (parking,) = await parkings(log)
        edited = await event_with(log, parking, None, {"name": "Another Name", "kind": "standard"})
        found = await preview_edit(log, parking, edited)
        assert (found.prospect, found.doubt) == ("is handled", "")
        assert (await preview_edit(log, parking, edited)).position == found.position, "its token holds"
        (stamp,) = found.emitted
        assert isinstance(stamp, StampRequested)
        assert stamp.name == "Another Name"
        await (await dry_run_of(log, log.choreography.services)).publish(letter(7))
        with key_store(letters_url) as store:
            assert (store.of_subject("c5") is None, store.of_subject("c7") is None) == (False, True)


async def test_a_preview_that_decides_by_masks_says_so(letters_url: str) -> None:
    async with open_log(letters_url, app) as log:
        await posted(log, 5)
    async with open_log(letters_url, app, read_only=True) as log:
        (found,) = await preview_retries(log, await parkings(log))
        assert found.doubt.startswith("personal fields are masked here")
        with pytest.raises(NoRight, match="EVENTLIB_PERSONAL_MASTER"):
            await preview_skip(log, log.choreography.service("letters"), "an id")


async def test_subjects_show_exports_what_is_kept(letters_url: str) -> None:
    async with open_log(letters_url, app) as log:
        await posted(log, 5, 6)
    where = ["--log", letters_url, *APP]
    rows = [json.loads(line) for line in said("subjects", "show", "c6", *where).splitlines()]
    assert {row["topic"] for row in rows} == {"letter.requests", "letters", "letters.changelog"}
    assert {row["data"]["name"] for row in rows} == {person(6)["name"]}
    parked = [json.loads(line) for line in said("subjects", "show", "c5", *where).splitlines()]
    assert {row["topic"] for row in parked} == {"letter.requests", "letters.parked"}
    assert parked[0]["data"]["street"] == person(5)["street"]


async def test_a_rerun_after_an_erasure_differs_in_nothing(tmp_path: Path, letters_url: str) -> None:
    where = ["--log", letters_url, *APP]
    async with open_log(letters_url, app) as log:
        await posted(log, 0, 1)
    said("forget", "c0", "--reason", "asked", *where)
    assert "nothing differs" in said("rerun", "begin", "letters", "again", *where)
    assert leaks(tmp_path) == []


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
