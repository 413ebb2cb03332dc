"""Personal data is ciphertext wherever it is written, and gone from everywhere once its subject is forgotten."""

import asyncio
import base64
import json
import os
import signal
import subprocess
import sys
import zlib
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from getpass import getuser
from pathlib import Path

import pytest

from eventlib import EventLog, Runtime, open_log
from eventlib.errors import WiringError
from eventlib.operations.dry_run import dry_run_of
from eventlib.operations.erasure import forget, receipts, resume
from eventlib.operations.parked_commands import event_with
from eventlib.operations.parked_preview import preview_edit, preview_retries
from eventlib.operations.skip import preview_skip
from eventlib.personal import ERASED, MASKED
from eventlib.personal.base import NoRight
from eventlib.personal.opening import open_store, personal_options
from eventlib.personal.receipt import NOT_COVERED
from eventlib.personal.secret_file import create_secret
from eventlib.personal.store import KeyStore
from eventlib.queries.parked import parkings
from eventlib.queries.state import state_of
from eventlib.replay import replay
from examples.letters import LetterSubmitted, StampRequested, app
from tests.commands import ended, said
from tests.integration.letters_app import FlakyPost
from tests.postgres import PASSWORD, Postgres

PEOPLE = 24


def person(number: int) -> dict[str, str]:
    return {
        "name": f"Plantagenet-{number:04} Q'Zyx",
        "street": f"{number:04} Wimbleforth Mews",
        "city": f"Oxbridgeham-{number:04}",
        "email": f"planted.{number:04}@quillwort.example",
        "phone": f"+44 7700 9{number:05}",
    }


def letter(number: int) -> LetterSubmitted:
    kind = "unknown" if number % 6 == 5 else "standard"
    return LetterSubmitted(letter_id=f"l{number}", customer_id=f"c{number}", kind=kind, **person(number))


@pytest.fixture
def master(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "secrets" / "master.key"
    create_secret(path)
    monkeypatch.setenv("EVENTLIB_PERSONAL_MASTER", f"file:{path}")
    return path


@pytest.fixture
def url(tmp_path: Path, master: Path) -> str:
    return f"sqlite:///{tmp_path / 'data' / 'letters.db'}" if master else ""


@asynccontextmanager
async def keys(url: str) -> AsyncIterator[KeyStore]:
    store = open_store(url, personal_options(), create=False)
    yield store
    store.close()


async def erased(log: EventLog, url: str, *subjects: str) -> None:
    async with keys(url) as store:
        for subject in subjects:
            await forget(log.port, store, subject, "they asked", "ada")


async def settled(log: EventLog) -> None:
    async with Runtime(log, ports={"post": FlakyPost()}) as runtime, asyncio.timeout(120):
        await runtime.idle()


def lose(path: Path) -> None:
    path.unlink()


def traces(text: str) -> list[bytes]:
    """Return the forms in which a text could stand in a file."""
    plain = text.encode()
    shifted = [
        base64.b64encode(b"x" * pad + plain)[(pad * 8 + 5) // 6 :][: len(plain) * 8 // 6 - 1] for pad in range(3)
    ]
    return [plain, text.encode("utf-16-le"), text.encode("utf-16-be"), json.dumps(text)[1:-1].encode(), *shifted]


def contents(directory: Path) -> dict[Path, list[bytes]]:
    """Return every file's bytes, and those in its compressed streams."""
    found = dict[Path, list[bytes]]()
    for path in sorted(directory.rglob("*")):
        if path.is_file():
            data = path.read_bytes()
            found[path] = [data, *inflated(data)]
    return found


def inflated(data: bytes) -> Iterator[bytes]:
    for head in (b"\x1f\x8b", b"\x78\x01", b"\x78\x9c", b"\x78\xda"):
        at = data.find(head)
        while at >= 0:
            with suppress(zlib.error):
                yield zlib.decompressobj(zlib.MAX_WBITS | 32).decompress(data[at:])
            at = data.find(head, at + 1)


def found_in(directory: Path, numbers: range) -> list[tuple[str, str]]:
    files = contents(directory)
    return [
        (path.name, text)
        for number in numbers
        for text in person(number).values()
        for trace in traces(text)
        for path, streams in files.items()
        if any(trace in stream for stream in streams)
    ]


async def test_services_write_ciphertext_and_read_plain_text(tmp_path: Path, url: str) -> None:
    async with open_log(url, app) as log:
        await log.publish_many([letter(number) for number in range(PEOPLE)])
        await settled(log)
        state = (await state_of(log, "letter", "l1")).state
        assert (state.name, state.email, state.status) == (person(1)["name"], person(1)["email"], "posted")
        assert {each.key for each in await parkings(log)} == {f"l{n}" for n in range(PEOPLE) if n % 6 == 5}
        assert not found_in(tmp_path, range(PEOPLE))
        report = await replay(log)
        assert report.same, report.first


async def test_the_search_finds_what_is_planted(tmp_path: Path) -> None:
    import gzip

    name = person(3)["name"]
    for number, data in enumerate(
        (
            name.encode(),
            name.encode("utf-16-le"),
            base64.b64encode(b"ab" + name.encode() + b"cd"),
            gzip.compress(name.encode()),
        )
    ):
        directory = tmp_path / str(number)
        directory.mkdir()
        (directory / "file").write_bytes(b"head" + data + b"tail")
        assert found_in(directory, range(3, 4)) == [("file", name)] * len(found_in(directory, range(3, 4))) != []


async def test_after_an_erasure_nothing_differs_and_the_fields_are_erased(
    tmp_path: Path, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_log(url, app) as log:
        await log.publish_many([letter(number) for number in range(PEOPLE)])
        await settled(log)
        await erased(log, url, *(f"c{number}" for number in range(0, PEOPLE, 2)))
        report = await replay(log)
        assert report.same, report.first
    async with open_log(url, app) as log:
        assert (await state_of(log, "letter", "l2")).state.name == ERASED
        assert (await state_of(log, "letter", "l3")).state.name == person(3)["name"]
        await log.publish(LetterSubmitted(letter_id="again", customer_id="c2", **person(2)))
        await settled(log)
        assert (await state_of(log, "letter", "again")).state.name == ERASED
        report = await replay(log)
        assert report.same, report.first
    for personal in (False, True):
        async with open_log(url, app, read_only=True, personal=personal) as log:
            report = await replay(log)
            assert report.same, report.first
    monkeypatch.setenv("EVENTLIB_PERSONAL_KEYS", f"sqlite:///{tmp_path}/elsewhere.keys")  # an auditor without any keys
    async with open_log(url, app, read_only=True) as log:
        report = await replay(log)
        assert report.same, report.first
    assert not found_in(tmp_path, range(PEOPLE))


async def test_an_erasure_while_services_run_reaches_them(tmp_path: Path, url: str) -> None:
    async with open_log(url, app) as log, open_log(url, app, read_only=True) as other:
        post = FlakyPost()
        async with Runtime(log, ports={"post": post}) as runtime, asyncio.timeout(120):
            for number in range(PEOPLE):
                await log.publish(letter(number))
                if number % 2:
                    await erased(other, url, f"c{number}")
            await runtime.idle()
        assert (await replay(log)).same
    assert not found_in(tmp_path, range(PEOPLE))
    async with open_log(url, app) as log:
        for number in range(0, PEOPLE, 2):
            assert (await state_of(log, "letter", f"l{number}")).state.name == person(number)["name"]
        stamps = [await log.decode_now(r) for p in range(8) for r in await log.port.read("letters", p, 0, 1_000)]
        names = {each.customer_id: each.name for each in stamps if isinstance(each, StampRequested)}
    assert {names[f"c{n}"] for n in range(1, PEOPLE, 2) if f"c{n}" in names} == {ERASED}


async def test_a_reader_without_the_right_sees_a_mask(url: str) -> None:
    async with open_log(url, app) as log:
        await log.publish_many([letter(0), letter(1)])
        await settled(log)
        await erased(log, url, "c0")
    arguments = ["--log", url, "--app", "examples.letters:app", "--json"]
    rows = [json.loads(line)["data"] for line in said("tail", "letter.requests", *arguments).splitlines()]
    assert {row["customer_id"]: row["name"] for row in rows} == {"c0": ERASED, "c1": MASKED}
    rows = [json.loads(line)["data"] for line in said("tail", "letter.requests", "--personal", *arguments).splitlines()]
    assert {row["customer_id"]: row["name"] for row in rows} == {"c0": ERASED, "c1": person(1)["name"]}
    assert json.loads(said("state", "letter", "l1", *arguments))["state"]["name"] == MASKED
    assert person(1)["name"] not in said("saga", "l1", *arguments) + said("history", "letter", "l1", *arguments)


async def test_without_a_master_key_nothing_is_written(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("EVENTLIB_PERSONAL_MASTER")
    with pytest.raises(WiringError, match="EVENTLIB_PERSONAL_MASTER"):
        async with open_log(url, app):
            pass


async def test_forget_prints_a_receipt_and_the_same_one_again(url: str) -> None:
    async with open_log(url, app) as log:
        await log.publish_many([letter(0), letter(5)])
        await settled(log)
    arguments = ["--reason", "asked by mail", "--by", "ada", "--log", url, "--app", "examples.letters:app", "--json"]
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


async def test_a_preview_makes_no_key(url: str) -> None:
    async with open_log(url, app) as log:
        await log.publish(letter(5))
        await settled(log)
        (parking,) = await parkings(log)
        edited = await event_with(log, parking, None, {"name": "Another Name", "kind": "standard"})
        found = await preview_edit(log, parking, edited)
        assert (found.prospect, found.doubt) == ("is handled", "")
        assert (await preview_edit(log, parking, edited)).position == found.position, "its token holds"
        (stamp,) = found.emitted
        assert isinstance(stamp, StampRequested)
        assert stamp.name == "Another Name"
        await (await dry_run_of(log, log.choreography.services)).publish(letter(7))
        store = open_store(url, personal_options(), create=False)
        assert (store.of_subject("c5") is None, store.of_subject("c7") is None) == (False, True)
        store.close()


async def test_a_preview_that_decides_by_masks_says_so(url: str) -> None:
    async with open_log(url, app) as log:
        await log.publish(letter(5))
        await settled(log)
    async with open_log(url, app, read_only=True) as log:
        (found,) = await preview_retries(log, await parkings(log))
        assert found.doubt.startswith("personal fields are masked here")
        with pytest.raises(NoRight, match="EVENTLIB_PERSONAL_MASTER"):
            await preview_skip(log, log.choreography.service("letters"), "an id")


async def test_subjects_show_exports_what_is_kept(url: str) -> None:
    async with open_log(url, app) as log:
        await log.publish_many([letter(5), letter(6)])
        await settled(log)
    where = ["--log", url, "--app", "examples.letters:app"]
    rows = [json.loads(line) for line in said("subjects", "show", "c6", *where).splitlines()]
    assert {row["topic"] for row in rows} == {"letter.requests", "letters", "letters.changelog"}
    assert {row["data"]["name"] for row in rows} == {person(6)["name"]}
    parked = [json.loads(line) for line in said("subjects", "show", "c5", *where).splitlines()]
    assert {row["topic"] for row in parked} == {"letter.requests", "letters.parked"}
    assert parked[0]["data"]["street"] == person(5)["street"]


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
async def test_a_forget_killed_at_any_step_is_completed_by_the_next(tmp_path: Path, url: str, step: str) -> None:
    async with open_log(url, app) as log:
        await log.publish_many([letter(0), letter(1)])
        await settled(log)
    async with keys(url) as store:
        row = store.of_subject("c0")
        assert row is not None
    arguments = ["forget", "c0", "--reason", "asked", "--log", url, "--app", "examples.letters:app", "--json"]
    killed = await asyncio.to_thread(
        subprocess.run, [sys.executable, "-c", _KILLED, step, *arguments], capture_output=True, text=True
    )
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    async with open_log(url, app) as log:
        async with keys(url) as store:
            await resume(log.port, store)
        if step.startswith("before SubjectErasureRequested"):
            await erased(log, url, "c0")
        (receipt,) = await receipts(log.port)
        assert (receipt.subject, receipt.had_key) == ("c0", True)
        assert (await replay(log)).same
        assert (await state_of(log, "letter", "l0")).state.name == ERASED
        assert (await state_of(log, "letter", "l1")).state.name == person(1)["name"]
    assert all(row.wrapped not in data for streams in contents(tmp_path).values() for data in streams)
    assert json.loads(said(*arguments))["erasure"] == receipt.erasure


async def test_restored_keys_lack_who_was_erased_since(tmp_path: Path, url: str) -> None:
    await backed_up_and_restored(tmp_path, url, lambda: lose(tmp_path / "data" / "letters.db.keys"))


async def test_keys_in_postgresql_are_backed_up_and_restored_by_the_same_commands(
    tmp_path: Path, url: str, postgres: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    schema = "letters_restored"
    postgres.run(f"CREATE SCHEMA {schema}")
    monkeypatch.setenv("PGPASSWORD", PASSWORD)
    monkeypatch.setenv("EVENTLIB_PERSONAL_KEYS", f"{postgres.url}?options=-csearch_path%3D{schema}")
    await backed_up_and_restored(
        tmp_path, url, lambda: postgres.run(f"DROP SCHEMA {schema} CASCADE; CREATE SCHEMA {schema}")
    )
    assert not (tmp_path / "data" / "letters.db.keys").exists()


async def backed_up_and_restored(tmp_path: Path, url: str, lose_keys: Callable[[], object]) -> None:
    where = ["--log", url, "--app", "examples.letters:app"]
    async with open_log(url, app) as log:
        await log.publish_many([letter(0), letter(1)])
        await settled(log)
    copy = tmp_path / "keys.copy"
    said("subjects", "backup", str(copy), "--log", url)
    assert copy.stat().st_mode & 0o077 == 0
    said("forget", "c0", "--reason", "asked", *where)
    lose_keys()
    assert json.loads(said("subjects", "restore", str(copy), "--json", *where)) == {"erased_again": 1}
    async with open_log(url, app) as log:
        assert (await state_of(log, "letter", "l0")).state.name == ERASED
        assert (await state_of(log, "letter", "l1")).state.name == person(1)["name"]


async def test_a_restored_log_learns_the_erasures_again(tmp_path: Path, url: str) -> None:
    where = ["--log", url, "--app", "examples.letters:app"]
    async with open_log(url, app) as log:
        await log.publish_many([letter(0), letter(1)])
        await settled(log)
    said("backup", "--to", str(tmp_path / "backup.db"), "--log", url)
    said("forget", "c0", "--reason", "asked", *where)
    said("restore", "--from", str(tmp_path / "backup.db"), "--to", url, "--force", "--reason", "drill")
    async with open_log(url, app) as log:
        assert [each.subject for each in await receipts(log.port)] == ["c0"]
        assert (await state_of(log, "letter", "l0")).state.name == ERASED
    assert not found_in(tmp_path, range(2))
    assert os.environ["EVENTLIB_PERSONAL_MASTER"]


async def test_a_rerun_after_an_erasure_differs_in_nothing(tmp_path: Path, url: str) -> None:
    where = ["--log", url, "--app", "examples.letters:app"]
    async with open_log(url, app) as log:
        await log.publish_many([letter(0), letter(1)])
        await settled(log)
    said("forget", "c0", "--reason", "asked", *where)
    assert "nothing differs" in said("rerun", "letters", "--into", "again", *where)
    assert not found_in(tmp_path, range(2))
