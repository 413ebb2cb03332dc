"""Notes of operators on the topic `_operations`: on a file and on Kafka, and what the commands for logs make of them."""

import json
from pathlib import Path

import pytest

from eventlib.errors import ContractError
from eventlib.log.base import Log
from eventlib.log.open import open_port
from eventlib.model.record import Record
from eventlib.operations.shared_notes import OPERATIONS, SharedNotes
from tests.commands import ended, said


@pytest.mark.parametrize("kind", ["sqlite", "kafka"])
async def test_notes_are_kept_by_kind_and_name(kind: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    url = f"sqlite:///{tmp_path}/log.db" if kind == "sqlite" else request.getfixturevalue("kafka_url")
    log = await open_port(url)
    try:
        notes = SharedNotes(log)
        assert await notes.all("filter") == {}
        await notes.delete("filter", "late", "ada")
        assert OPERATIONS.name not in await log.topics(), "reading and deleting write nothing"
        await notes.put("filter", "late/é", {"query": "age > 1h"}, "ada")
        await notes.put("filter", "dear", ["total > 100"], "ada")
        await notes.put("filters", "dear", "of another kind", "ada")
        await notes.put("filter", "dear", ["total > 200"], "bob")
        found = await notes.all("filter")
        assert {name: (note.value, note.by) for name, note in found.items()} == {
            "dear": (["total > 200"], "bob"),
            "late/é": ({"query": "age > 1h"}, "ada"),
        }
        assert [*found] == ["dear", "late/é"]
        assert found["late/é"].at_ms <= found["dear"].at_ms
        await notes.delete("filter", "dear", "eve")
        await log.compact()
        assert [*await notes.all("filter")] == ["late/é"]
        newest = (await log.read(OPERATIONS.name, 0, 0, 100))[-1]
        assert (newest.value, newest.headers) == (None, (("by", b"eve"),))
        await refused(log, notes)
    finally:
        await log.close()


async def refused(log: Log, notes: SharedNotes) -> None:
    """A bad name is refused before anything is written, and a record of something else is named."""
    for kind, name in [("", "a"), ("a/b", "c"), ("a", "")]:
        with pytest.raises(ContractError, match="a note has a kind without / and a name"):
            await notes.put(kind, name, 1, "ada")
    await log.append([Record(OPERATIONS.name, 0, -1, 0, b"odd/one", b"{}")])
    with pytest.raises(ContractError, match="_operations: odd/one is not a note: 'value'; write it again"):
        await notes.all("odd")
    for odd in (
        b'{"value": {}, "by": "eve", "at_ms": "soon"}',
        b'{"value": {}, "by": "eve", "at_ms": Infinity}',
        b"[]",
    ):
        await log.append([Record(OPERATIONS.name, 0, -1, 0, b"odd/one", odd)])
        with pytest.raises(ContractError, match="_operations: odd/one is not a note"):
            await notes.all("odd")
    assert await notes.all("filter"), "it is in the way of its own kind only"


async def test_notes_are_backed_up_copied_examined_and_archived(tmp_path: Path, kafka_url: str) -> None:
    url = f"sqlite:///{tmp_path}/log.db"
    log = await open_port(url)
    await SharedNotes(log).put("filter", "late", {"query": "age > 1h"}, "ada")
    await log.close()
    said("backup", "--to", str(tmp_path / "kept"), "--log", url)
    said("restore", "--from", str(tmp_path / "kept"), "--to", f"sqlite:///{tmp_path}/restored.db")
    assert ended("doctor", "--log", url).returncode == 0
    assert "notes of operators and deployments" in said("topics", "--log", url, "--app", "services:shop")
    assert json.loads(said("tail", OPERATIONS.name, "--log", url, "--json"))["key"] == "filter/late"
    said("copy", "--from", url, "--to", kafka_url)
    for copied in (f"sqlite:///{tmp_path}/restored.db", kafka_url):
        other = await open_port(copied)
        assert (await SharedNotes(other).all("filter"))["late"].by == "ada"
        await other.close()
