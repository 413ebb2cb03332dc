"""Schema ids live on the log, in a registry's own form, and are given once."""

import asyncio
import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from eventlib.codec.registry import Schema, Wanted
from eventlib.codec.schema_ids import Schemas
from eventlib.errors import UndecodableRecord
from eventlib.log.memory import MemoryLog
from eventlib.log.sqlite.log import SqliteLog
from eventlib.model.record import Record
from eventlib.registry.records import SCHEMAS
from tests.in_rows import in_rows

A, B, C = (Schema(f'{{"type":"record","name":"{name}","fields":[]}}') for name in "ABC")


async def on_the_log(log: MemoryLog) -> list[Record]:
    return await log.read("_schemas", 0, 0, 1_000)


async def test_a_schema_stands_on_the_log_as_a_registry_writes_it() -> None:
    log = MemoryLog()
    await Schemas(log).register([("orders-A", A)])
    (record,) = await on_the_log(log)
    assert record.key == b'{"keytype":"SCHEMA","subject":"orders-A","version":1,"magic":1}'
    assert record.value is not None
    assert json.loads(record.value) == {
        "subject": "orders-A",
        "version": 1,
        "id": 1,
        "schema": A.text,
        "deleted": False,
    }
    topic = (await log.topics())["_schemas"]
    assert topic.compacted
    assert topic.partitions == 1


async def test_one_schema_has_one_id_and_each_subject_its_own_versions() -> None:
    log = MemoryLog()
    schemas = Schemas(log)
    await schemas.register([("x-A", A), ("y-A", A), ("x-B", B)])
    await schemas.register([("y-A", B)])
    values = [json.loads(record.value or b"") for record in await on_the_log(log)]
    assert [(v["subject"], v["version"], v["id"]) for v in values] == [
        ("x-A", 1, 1),
        ("y-A", 1, 1),
        ("x-B", 1, 2),
        ("y-A", 2, 2),
    ]
    assert schemas.schema(1) == A
    assert await schemas.ids([("x-B", B), ("x-A", B)]) == [2, None]


async def test_what_is_known_is_only_read() -> None:
    log = MemoryLog()
    await Schemas(log).register([("x-A", A)])
    claim = await log.seize("_schemas", 0)
    await Schemas(log).register([("x-A", A)])
    assert len(await on_the_log(log)) == 1
    # The claim from before is still the newest, so nobody has seized since.
    await log.append([Record("_schemas", 0, -1, 0, b'{"keytype":"NOOP","magic":0}', None)], claim)


async def test_many_are_one_append() -> None:
    class Counting(MemoryLog):
        appends = 0

        async def append(self, records, claim=None):  # type: ignore[no-untyped-def]
            self.appends += 1
            return await super().append(records, claim)

    log = Counting()
    await Schemas(log).register([(f"x-{i}", A) for i in range(50)])
    assert log.appends == 1
    assert len(await on_the_log(log)) == 50


async def test_two_at_a_time_give_no_id_twice() -> None:
    log = MemoryLog()
    texts = [Schema(f'{{"type":"record","name":"R{i}","fields":[]}}') for i in range(12)]
    many = [Schemas(log) for _ in range(6)]
    await asyncio.gather(
        *(each.register([(f"t-{text.text}", text) for text in texts[i * 2 : i * 2 + 3]]) for i, each in enumerate(many))
    )
    values = [json.loads(record.value or b"") for record in await on_the_log(log)]
    assert len({value["id"] for value in values}) == len({value["schema"] for value in values}) == len(values) == 12
    assert len({(value["subject"], value["version"]) for value in values}) == 12


async def test_what_others_register_is_learned_by_refresh() -> None:
    log = MemoryLog()
    mine, theirs = Schemas(log), Schemas(log)
    await mine.refresh()
    await theirs.register([("x-A", A)])
    assert mine.schema(1) is None
    await mine.refresh()
    assert mine.schema(1) == A


async def test_a_registrys_own_records_are_understood() -> None:
    log = MemoryLog()
    await log.create_topics([SCHEMAS])

    def record(key: object, value: object) -> Record:
        written = None if value is None else json.dumps(value).encode()
        return Record("_schemas", 0, -1, 0, json.dumps(key).encode(), written)

    def key(version: int) -> object:
        return {"keytype": "SCHEMA", "subject": "x-A", "version": version, "magic": 1}

    value = {"subject": "x-A", "version": 1, "id": 7, "schema": json.dumps(json.loads(A.text)), "deleted": True}
    await log.append(
        [
            record({"keytype": "NOOP", "magic": 0}, None),
            record({"keytype": "CONFIG", "magic": 0}, {"compatibilityLevel": "FULL"}),
            record(key(1), value),
            record(key(2), None),
            record(key(3), {**value, "version": 3, "id": 8, "schemaType": "PROTOBUF"}),
        ]
    )
    schemas = Schemas(log)
    await schemas.refresh()
    assert schemas.schema(7) == A
    assert schemas.schema(8) == Schema(json.dumps(json.loads(A.text)), "PROTOBUF")
    assert 8 not in schemas.texts
    await schemas.register([("x-A", A)])
    newest = json.loads((await on_the_log(log))[-1].value or b"")
    assert (newest["version"], newest["id"]) == (4, 7)


@pytest.mark.parametrize("value", [b"\xff", b"{}", b'{"id":"x","subject":"s","version":1,"schema":"{}"}', b"[]"])
async def test_what_is_not_a_schema_is_named_with_its_place(value: bytes) -> None:
    log = MemoryLog()
    await log.create_topics([SCHEMAS])
    key = b'{"keytype":"SCHEMA","subject":"s","version":1,"magic":1}'
    await log.append([Record("_schemas", 0, -1, 0, key, value)])
    with pytest.raises(UndecodableRecord, match=r"at _schemas/0/0"):
        await Schemas(log).refresh()


async def test_a_damaged_schema_that_is_wanted_again_keeps_its_id_and_is_written_again(tmp_path: Path) -> None:
    wanted = [("x-A", A), ("x-B", B), ("y-A", A)]
    log = await damaged(tmp_path / "log.db", wanted, "value = x'00', key = x'01' WHERE position & 255 IN (1, 2)")
    schemas = Schemas(log)
    assert await schemas.ids(wanted) == [1, None, None]
    assert schemas.schema(2) == B  # so that what was written with it can be read before anything is written
    await schemas.register(wanted)
    assert await schemas.ids(wanted) == await Schemas(log).ids(wanted) == [1, 2, 1]
    assert [json.loads(each.value or b"")["version"] for each in await log.read("_schemas", 0, 3, 9)] == [1, 1]
    await log.close()


async def test_the_id_of_a_damaged_schema_that_nobody_has_any_more_is_given_to_no_other(tmp_path: Path) -> None:
    log = await damaged(tmp_path / "log.db", [("x-A", A), ("x-B", B)], "value = x'00' WHERE position & 255 = 1")
    schemas = Schemas(log)
    await schemas.register([("x-A", A), ("x-C", C)])
    assert await schemas.ids([("x-A", A), ("x-C", C)]) == [1, 3]
    assert schemas.schema(2) is None
    await log.close()


async def damaged(path: Path, registered: list[Wanted], change: str) -> SqliteLog:
    """Return a log with schemas, some records of which have changed."""
    log = await SqliteLog.open(path)
    await Schemas(log).register(registered)
    await log.close()
    with closing(sqlite3.connect(in_rows(path))) as connection:
        connection.execute(f"UPDATE records SET {change}")  # noqa: S608  a test's own words
        connection.commit()
    return await SqliteLog.open(path)
