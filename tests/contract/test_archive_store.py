"""An archive on an object store has each record once, however many archive at the same time and wherever one is killed."""

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from analytics.archiving import archive
from analytics.cli import run
from eventlib.errors import LogDenied, LogUnavailable, OwnershipLost, WiringError
from eventlib.ground.object_store import ObjectStore
from eventlib.log.archive.files import read_manifest
from eventlib.log.archive.log import ArchiveLog
from eventlib.log.sqlite.log import SqliteLog
from eventlib.model.record import Record
from eventlib.model.topic import Topic
from eventlib.testing.log_fixture import record
from tests.analytics.killing import Killed, killed_at
from tests.commands import ended, said
from tests.moto import on_this_machine, running_moto
from tests.ports import free_port

TOPICS = [Topic("a", partitions=2), Topic("b", partitions=1)]


async def grown(log: SqliteLog, turn: int) -> None:
    await log.append([record("a", f"{turn}-{n}".encode(), partition=n % 2) for n in range(5)])
    await log.append([record("b", f"{turn}".encode())])


async def everything(log: SqliteLog | ArchiveLog) -> list[Record]:
    return [
        each for topic in TOPICS for n in range(topic.partitions) for each in await log.read(topic.name, n, 0, 1_000)
    ]


async def opened(path: Path) -> SqliteLog:
    log = await SqliteLog.open(path / "log.db")
    await log.create_topics(TOPICS)
    return log


@pytest.mark.extended
async def test_killed_before_any_write_to_the_store_each_record_is_there_once(
    tmp_path: Path, store: ObjectStore
) -> None:
    log, there = await opened(tmp_path), list[Record]()
    for turn in range(24):
        await grown(log, turn)
        before, now = there, await everything(log)
        with killed_at(turn % 6, store) as writes, suppress(Killed):
            await archive(log, store)
        if before:
            assert await everything(await ArchiveLog.open(f"archive:{store}")) in (before, now), writes
        await archive(log, store)
        there = await everything(await ArchiveLog.open(f"archive:{store}"))
        assert there == now
    manifest = read_manifest(store)
    assert any("-m0" in file.path for file in manifest.files)  # small ones were merged
    needed = {file.path for file in manifest.files} | {each.path for each in manifest.replaced}
    assert store.sizes("data/").keys() == needed
    assert 10 <= len(store.sizes("manifests/")) <= 20
    await log.close()


async def test_of_two_that_archive_at_the_same_time_one_commits(tmp_path: Path, store: ObjectStore) -> None:
    log = await opened(tmp_path)
    await grown(log, 1)
    overtaken = list[str]()

    def meanwhile(topic: str, *_: int) -> None:
        if not overtaken:
            overtaken.append(topic)
            said("archive", "--log", log.url, "--to", str(store), by=run)

    with pytest.raises(LogUnavailable, match=r"another process has archived to s3a://.* meanwhile"):
        await archive(log, store, meanwhile)
    assert await everything(await ArchiveLog.open(f"archive:{store}")) == await everything(log)
    await grown(log, 2)
    await archive(log, store)
    assert await everything(await ArchiveLog.open(f"archive:{store}")) == await everything(log)
    await log.close()


async def test_commands_read_it_and_damage_is_found(tmp_path: Path, store: ObjectStore) -> None:
    log = await opened(tmp_path)
    await grown(log, 1)
    told = json.loads(said("archive", "--log", log.url, "--to", str(store), "--json", by=run))
    assert (told["archive"], told["records"]) == (f"archive:{store}", 6)
    assert said("tail", "a", "--log", f"archive:{store}", "--json") == said("tail", "a", "--log", log.url, "--json")
    file = read_manifest(store).files[0]
    store.put(file.path, store.get(file.path)[0][:-1] + b"!")
    found = ended("doctor", "--deep", "--log", f"archive:{store}")
    assert (found.returncode, f"{file.path}: its SHA-256 is not that" in " ".join(found.stdout.split())) == (1, True)
    await log.close()


def test_of_two_that_have_seen_the_same_state_one_writes(store: ObjectStore) -> None:
    first = store.replace("first", b"1", None)
    with pytest.raises(OwnershipLost, match=rf"another process has written {store}/first"):
        store.replace("first", b"2", None)
    second = store.replace("first", b"2", first)
    with pytest.raises(OwnershipLost):
        store.replace("first", b"3", first)
    assert store.get("first") == (b"2", second)


@pytest.mark.parametrize("is_written", [True, False])
def test_a_write_whose_answer_is_lost_counts_if_it_is_there(
    store: ObjectStore, monkeypatch: pytest.MonkeyPatch, is_written: bool
) -> None:
    from botocore.client import BaseClient
    from botocore.exceptions import EndpointConnectionError

    tag, send = store.replace("lost", b"1", None), BaseClient._make_api_call  # noqa: SLF001  where all requests go through

    def lost(client: BaseClient, operation: str, given: Any) -> Any:
        if operation != "PutObject" or is_written:
            answer = send(client, operation, given)
        if operation == "PutObject":
            raise EndpointConnectionError(endpoint_url="here")
        return answer

    monkeypatch.setattr(BaseClient, "_make_api_call", lost)
    if is_written:
        assert store.replace("lost", b"2", tag) == store.get("lost")[1]
    else:
        with pytest.raises(LogUnavailable, match="try again"):
            store.replace("lost", b"2", tag)
    assert store.get("lost")[0] == (b"2" if is_written else b"1")


def test_objects_are_listed_read_in_parts_and_deleted(store: ObjectStore, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(bytes(range(256)) * 1_000)
    store.upload(tmp_path / "file", "parts/a")
    store.put("parts/b", b"22")
    assert store.sizes("parts/") == {"parts/a": 256_000, "parts/b": 2}
    with store.open("parts/a") as file:
        file.seek(-256, 2)
        assert file.read() == bytes(range(256))
    store.delete(["parts/a", "parts/never"])
    assert store.sizes("parts/") == {"parts/b": 2}
    for missing in (store.get, store.open):
        with pytest.raises(FileNotFoundError):
            missing("parts/a")


def test_what_is_wrong_is_said_with_what_to_do(store: ObjectStore, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(WiringError, match="write s3a://BUCKET/DIR"):
        ObjectStore("s3a://lake")
    with pytest.raises(WiringError, match="there is no bucket elsewhere: make it first"):
        ObjectStore("s3a://elsewhere/tables").put("a", b"1")
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{free_port()}")
    with pytest.raises(LogUnavailable, match=f"{store} does not answer"):
        ObjectStore(str(store)).get("a")
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    with pytest.raises(WiringError, match="set AWS_ACCESS_KEY_ID"):
        ObjectStore(str(store)).get("a")


def test_a_store_that_refuses_the_credentials_shows_no_secret(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with running_moto(tmp_path, INITIAL_NO_AUTH_ACTION_COUNT="0") as strict:
        for name, value in on_this_machine(strict).items():
            monkeypatch.setenv(name, value)
        with pytest.raises(LogDenied, match=r"refuses these credentials \(InvalidAccessKeyId\)") as refused:
            ObjectStore("s3a://lake/tables").get("a")
    assert "secret" not in str(refused.value)
