"""A registry that cannot read its log says so, and not that there is no such schema."""

from pathlib import Path
from typing import Any

import pytest

from eventlib.errors import OwnershipLost
from eventlib.log.base import Claim
from eventlib.log.memory import MemoryLog
from eventlib.log.sqlite.log import SqliteLog
from tests.connections import opened_from_here, silent
from tests.contract.registry_servers import registry

SCHEMA = '{"type":"record","name":"R","fields":[{"name":"a","type":"int"}]}'
OTHER = '{"type":"record","name":"R","fields":[{"name":"b","type":"int"}]}'
ROUTES: list[tuple[str, str, Any]] = [
    ("GET", "/schemas/ids/2", None),
    ("GET", "/schemas/ids/2/schema", None),
    ("GET", "/schemas/ids/2/subjects", None),
    ("GET", "/schemas/ids/2/versions", None),
    ("GET", "/schemas/ids/1/versions", None),
    ("GET", "/schemas", None),
    ("GET", "/subjects", None),
    ("GET", "/subjects/y/versions", None),
    ("GET", "/subjects/x/versions", None),
    ("GET", "/subjects/y/versions/1", None),
    ("GET", "/subjects/x/versions/2", None),
    ("GET", "/subjects/x/versions/1/referencedby", None),
    ("POST", "/subjects/y", {"schema": OTHER}),
    ("POST", "/subjects/x", {"schema": OTHER}),
    ("GET", "/config", None),
    ("GET", "/config/x", None),
    ("GET", "/mode", None),
    ("GET", "/mode/x?defaultToGlobal=true", None),
    ("POST", "/compatibility/subjects/x/versions", {"schema": OTHER}),
    ("POST", "/compatibility/subjects/y/versions/1", {"schema": SCHEMA}),
]


async def test_what_a_registry_cannot_read_is_not_said_to_be_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = opened_from_here(monkeypatch)
    log, elsewhere = [await SqliteLog.open(tmp_path / "log.db") for _ in range(2)]
    async with registry(elsewhere) as writer, registry(log) as client:
        await writer.put("/config", json={"compatibility": "NONE"})
        assert (await writer.post("/subjects/x/versions", json={"schema": SCHEMA})).json() == {"id": 1}
        assert (await client.get("/schemas/ids/1")).status_code == 200
        with silent(opened["log.db"][0]):
            for subject in ("x", "y"):
                await writer.post(f"/subjects/{subject}/versions", json={"schema": OTHER})
            await writer.put("/config/x", json={"compatibility": "FULL"})
            answers = [await client.request(method, path, json=body) for method, path, body in ROUTES]
            assert (await client.get("/schemas/ids/1")).status_code == 200  # what is known goes on
        for (method, path, body), answer in zip(ROUTES, answers, strict=True):
            assert (answer.status_code, answer.json().get("error_code")) == (500, 50001), (path, answer.text)
            assert int(answer.headers["retry-after"]) > 0
            again = await client.request(method, path, json=body)
            assert again.status_code == 200, (path, again.text)
            assert again.json() == (await writer.request(method, path, json=body)).json()
    for each in (log, elsewhere):
        await each.close()


class Undecided(MemoryLog):
    """A log that has written what it was given, and could only say that the claim counts no more."""

    loses = False

    async def append(self, records: Any, claim: Claim | None = None) -> list[int]:
        offsets = await super().append(records, claim)
        if self.loses and any(record.topic == "_schemas" for record in records):
            self.loses = False
            raise OwnershipLost("it is not known whether committing worked")
        return offsets


async def test_a_deletion_of_unknown_outcome_is_not_repeated_and_then_said_to_be_of_nothing() -> None:
    log = Undecided()
    async with registry(log) as client:
        await client.post("/subjects/x/versions", json={"schema": SCHEMA})
        log.loses = True
        answer = await client.delete("/subjects/x")
        assert (answer.status_code, answer.json()["error_code"]) == (500, 50003), answer.text
        assert int(answer.headers["retry-after"]) > 0
