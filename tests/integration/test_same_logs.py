"""An archive, a backup and a copy are proved to be the log that was, and each difference is named."""

import asyncio
import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from analytics.audit.bytes import DAMAGED, damage_findings
from eventlib.log.checksum import record_checksum
from eventlib.log.open import open_port
from eventlib.log.sqlite.log import SqliteLog
from eventlib.model.record import Record
from eventlib.model.topic import Topic
from eventlib.operations.doctor.sameness import compare
from tests.analytics.sources import archived
from tests.commands import ended, said
from tests.in_rows import change_row, in_rows

FACTS, OTHER = Topic("facts", partitions=2), Topic("notes", partitions=1)
NEWEST = Topic("newest", partitions=1, compacted=True)


def record(number: int, topic: str = "facts") -> Record:
    return Record(
        topic, number % 2 if topic == "facts" else 0, -1, 1_000 + number, b"k%d" % number, b"v" * number, type="Fact"
    )


async def filled(path: Path, count: int = 40) -> str:
    log = await SqliteLog.open(path)
    await log.create_topics([FACTS, OTHER, NEWEST])
    await log.append([record(n) for n in range(count)])
    await log.append([record(n, "notes") for n in range(5)])
    await log.append([record(n, "newest") for n in range(5)])
    await log.close()
    return f"sqlite:///{path}"


@pytest.fixture
async def url(tmp_path: Path) -> str:
    return await filled(tmp_path / "log.db")


def backed_up(url: str, place: Path) -> str:
    said("backup", "--log", url, "--to", str(place / "copy.db"))
    return f"sqlite:///{place}/copy.db"


@pytest.mark.parametrize("make", [archived, backed_up])
async def test_an_archive_and_a_backup_are_the_log_that_was(
    url: str, tmp_path: Path, make: Callable[[str, Path], str]
) -> None:
    made = make(url, tmp_path / "made")
    (found,) = await compare(made, url)
    assert (found.verdict, found.what) == ("ok", f"45 records are the same on {url}; 1 compacted topics were left out")
    log = await open_port(url)
    await log.append([record(n) for n in range(40, 47)])
    await log.close()
    (found,) = await compare(made, url)
    assert found.verdict == "ok"
    assert "45 records are the same" in found.what
    assert "7 offsets are on one of them only" in found.what


async def test_a_copy_on_kafka_is_the_log_that_was(url: str, kafka_url: str) -> None:
    target = kafka_url
    await asyncio.to_thread(said, "copy", "--from", url, "--to", target)
    (found,) = await compare(url, target)
    assert (found.verdict, found.what.split(" are")[0]) == ("ok", "45 records")


FORGE = """
UPDATE records SET value = ?, checksum = ?
WHERE position = (SELECT number << 40 | 3 FROM partitions WHERE topic = 'facts' AND partition = 1)
"""
DROP = """
DELETE FROM records
WHERE position = (SELECT number << 40 | 3 FROM partitions WHERE topic = 'facts' AND partition = 1)
"""


def forge(path: Path) -> None:
    """Change a record so that its checksum is right again."""
    forged = record(7).replace(offset=3, value=b"forged")
    change_row(in_rows(path), FORGE, forged.value, record_checksum(forged))


CHANGES: dict[str, tuple[Callable[[Path], None], str]] = {
    "forged": (forge, "facts/1/3 (Fact of 'k7') has another value on"),
    "gone": (lambda path: change_row(in_rows(path), DROP), "facts/1/3 (Fact of 'k7') is on"),
    "a topic gone": (lambda path: change_row(path, "DELETE FROM topics WHERE name = 'notes'"), "notes is on"),
}


@pytest.mark.parametrize("name", CHANGES)
async def test_what_differs_is_named(url: str, tmp_path: Path, name: str) -> None:
    change, sentence = CHANGES[name]
    other = tmp_path / "other.db"
    shutil.copy(tmp_path / "log.db", other)
    change(other)
    for one, two in ((url, f"sqlite:///{other}"), (f"sqlite:///{other}", url)):
        (found,) = await compare(one, two)
        assert found.verdict == "error"
        assert found.what.startswith(sentence)


async def test_a_topic_with_other_partitions_is_another(url: str, tmp_path: Path) -> None:
    log = await SqliteLog.open(tmp_path / "other.db")
    await log.create_topics([Topic("facts", partitions=3), OTHER, NEWEST])
    await log.append([record(n, "notes") for n in range(5)])
    await log.close()
    (found,) = await compare(url, f"sqlite:///{tmp_path}/other.db")
    assert found.what.startswith("facts has 2 partitions, and 3 on sqlite")


def test_the_command_compares_and_makes_no_log_that_is_not_there(tmp_path: Path) -> None:
    url = asyncio.run(filled(tmp_path / "log.db"))
    place = archived(url, tmp_path / "archive")
    assert damage_findings(place, url) == []
    done = ended("doctor", "--deep", "--log", place, "--same-as", url, "--json")
    found = {each["check"]: each for each in map(json.loads, done.stdout.splitlines())}
    assert found["same"]["verdict"] == "ok"
    assert found["records"]["verdict"] == "ok", "an archive can be examined alone, too"
    forge(tmp_path / "log.db")
    done = ended("doctor", "--log", place, "--same-as", url)
    assert done.returncode == 1
    assert "facts/1/3 (Fact of 'k7') has another value" in " ".join(done.stdout.split())
    (audited,) = damage_findings(place, url)
    assert audited.rule == DAMAGED.name
    assert "facts/1/3 (Fact of 'k7') has another value" in audited.sentence
    missing = ended("doctor", "--log", place, "--same-as", f"sqlite:///{tmp_path}/none.db")
    assert missing.returncode == 1
    assert "there is no log at" in missing.stderr
    assert not (tmp_path / "none.db").exists()
