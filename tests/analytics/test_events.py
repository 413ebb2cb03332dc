"""An event's columns are what its own codec reads, wherever they are decoded and whichever version wrote them."""

import json
from collections.abc import Sequence
from datetime import UTC
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.types import StructType

import analytics
from analytics.columns import struct_of
from eventlib.codec.wire_format import HEADER_BYTES, FramedCodec
from eventlib.contracts.exporting import spark_ddl
from eventlib.errors import WiringError
from eventlib.eventlog import EventLog
from eventlib.log.memory import MemoryLog
from eventlib.log.sqlite.log import SqliteLog
from eventlib.model.event import Event, contract_of
from eventlib.model.record import Record
from eventlib.model.schema.derive import record_of
from eventlib.opening import open_log
from services import shop
from services.order.events import OrderPlaced
from services.stock.events import LineReserved
from tests.analytics.parcels import COARSER, OLDER, Clicked, ParcelPacked, fields
from tests.golden.contracts import first, second, third
from tests.golden.contracts.record import load

TOPIC = contract_of(ParcelPacked).topic


async def written(path: Path, versions: Sequence[tuple[type[Event], int]], *more: Record) -> str:
    """Return a log with parcels, each in a version of the event."""
    log = await SqliteLog.open(path)
    await log.create_topics([TOPIC])
    for event, i in versions:
        codec = FramedCodec(log)
        await codec.prepare([(TOPIC.name, event)])
        value = codec.encode(event(**fields(i)))
        await log.append([Record(TOPIC.name, i % 8, -1, 1_000, b"k", value, id=f"{i}", type="ParcelPacked")])
    await log.append(more)
    await log.close()
    return f"sqlite:///{path}"


def in_order(frame: DataFrame) -> list[Row]:
    return sorted(frame.collect(), key=lambda row: (row["topic"], row["partition"], row["offset"]))


async def test_every_event_of_the_shop_is_what_its_codec_reads(spark: SparkSession, shop_log: str) -> None:
    async with open_log(shop_log, shop, read_only=True) as log:
        for event in (OrderPlaced, LineReserved):
            rows = in_order(analytics.events(spark, shop_log, event))
            assert len(rows) > 200
            for row in rows[::40]:
                (record,) = await log.port.read(row["topic"], row["partition"], row["offset"], 1)
                assert as_data(row, event) == as_plain(log.decode(record))


def as_data(row: Row, event: type[Event]) -> dict[str, Any]:
    made = row.asDict(recursive=True)
    return {name: aware(made[name]) for name in event.model_fields}


def aware(value: Any) -> Any:
    return value.replace(tzinfo=UTC) if hasattr(value, "tzinfo") else value


def as_plain(event: object) -> dict[str, Any]:
    assert isinstance(event, Event)
    made = event.model_dump()
    return {name: list(value) if isinstance(value, tuple) else value for name, value in made.items()}


async def test_every_kind_of_field_is_a_column(spark: SparkSession, tmp_path: Path) -> None:
    url = await written(tmp_path / "log.db", [(ParcelPacked, i) for i in range(8)])
    rows = in_order(analytics.events(spark, url, ParcelPacked, jvm=True))
    assert rows == in_order(analytics.events(spark, url, ParcelPacked, jvm=False))
    for i, row in enumerate(rows):
        given = fields(i)
        assert row["weight"] == given["weight"]
        assert row["event_offset"] == given["offset"]
        assert row["offset"] == 0
        assert [(box["size"], box["litres"]) for box in row["shapes"]] == [
            (box.size.value, box.litres) for box in given["shapes"]
        ]
        assert row["marks"] == given["marks"]
        assert (row["by"], row["on"], bytes(row["seal"])) == (str(given["by"]), given["on"], given["seal"])
        assert row["at"] == ((i * 60 + 30) * 60 + 15) * 1_000_000 + 250
        assert row["moment"].replace(tzinfo=UTC) == given["moment"]
        inside = row["inside"] and (row["inside"]["member0"], row["inside"]["member1"])
        assert inside == (None, (Row(size="small", litres=1.5), None), (None, Row(metres=i)))[i % 3]


async def test_older_versions_have_the_newest_columns(spark: SparkSession, tmp_path: Path) -> None:
    url = await written(tmp_path / "log.db", [(ParcelPacked, 1), (OLDER, 2), (ParcelPacked, 3), (OLDER, 4)])
    rows = in_order(analytics.events(spark, url, ParcelPacked, jvm=True))
    assert rows == in_order(analytics.events(spark, url, ParcelPacked, jvm=False))
    assert [(row["parcel_id"], row["fragile"], row["note"]) for row in rows] == [
        (f"parcel-{i}", False, None) for i in (1, 2, 3, 4)
    ]
    assert "colour" not in rows[0]


async def test_what_only_our_codec_resolves_is_left_to_it(spark: SparkSession, tmp_path: Path) -> None:
    url = await written(tmp_path / "log.db", [(ParcelPacked, 1), (COARSER, 2)])
    with pytest.raises(WiringError, match="leave jvm out"):
        analytics.events(spark, url, ParcelPacked, jvm=True)
    rows = in_order(analytics.events(spark, url, ParcelPacked))
    assert [row["weight"] for row in rows] == [Decimal("0.500"), Decimal("1.000")]


@pytest.mark.parametrize("version", ["first", "second"])
async def test_an_earlier_version_is_brought_over_by_its_upcaster(
    spark: SparkSession, tmp_path: Path, version: str
) -> None:
    path = tmp_path / "log.db"
    port = await SqliteLog.open(path)
    await load(version, port, EventLog(port, FramedCodec(port), third.post))
    await port.close()
    rows = in_order(analytics.events(spark, f"sqlite:///{path}", third.ParcelHandedIn))
    assert sorted((row["parcel_id"], row["name"], row["city"], row["weight_g"]) for row in rows) == [
        ("1", "Ada", "London", 450.0),
        ("2", "Grace", "New York", 1200.0),
    ]
    rows = in_order(analytics.events(spark, f"sqlite:///{path}", third.ParcelDelivered))
    assert [row["signature"] for row in rows] == ["A. L."]


@pytest.mark.parametrize("jvm", [True, False])
async def test_what_cannot_be_read_fails_with_its_place_or_is_null(
    spark: SparkSession, tmp_path: Path, *, jvm: bool
) -> None:
    values = (b"", None, b"\0\0\0\0\x01", b"\0\0\0\0\x63abc", b"\x01\0\0\0\x01abc")
    bad = [Record(TOPIC.name, 3, -1, 1_000, b"k", value, type="ParcelPacked") for value in values]
    url = await written(tmp_path / "log.db", [(ParcelPacked, 3)], *bad)
    rows = in_order(analytics.events(spark, url, ParcelPacked, jvm=jvm, strict=False))
    assert [row["parcel_id"] for row in rows] == ["parcel-3", *(None for _ in values)]
    one = {(TOPIC.name, 3): 2}
    with pytest.raises(PySparkException, match=r"record parcels/3 at 1.*strict=False"):
        analytics.events(spark, url, ParcelPacked, jvm=jvm, end=one).select("parcel_id").collect()


async def test_records_of_a_log_will_do_as_a_source(spark: SparkSession, shop_log: str) -> None:
    records = analytics.log(spark, shop_log, topics=["_schemas", "orders"])
    assert in_order(analytics.events(spark, records, OrderPlaced)) == in_order(
        analytics.events(spark, shop_log, OrderPlaced)
    )
    with pytest.raises(WiringError, match="since needs a log's URL"):
        analytics.events(spark, records, OrderPlaced, since=None)


def test_offsets_narrow_what_is_read(spark: SparkSession, shop_log: str) -> None:
    spans = analytics.spans(shop_log)
    quarters = {place: len(span) // 4 for place, span in spans.items()}
    old = in_order(analytics.events(spark, shop_log, OrderPlaced, end=quarters))
    new = in_order(analytics.events(spark, shop_log, OrderPlaced, begin=quarters))
    assert old
    assert new
    assert sorted(old + new) == sorted(in_order(analytics.events(spark, shop_log, OrderPlaced)))


async def test_what_others_write_has_columns_too(spark: SparkSession, tmp_path: Path) -> None:
    log = await SqliteLog.open(tmp_path / "log.db")
    await log.create_topics([contract_of(Clicked).topic])
    await log.append(
        [Record("clicks", 0, -1, 1, None, b'{"page": "/a", "more": 1}'), Record("clicks", 0, -1, 1, None, b"?")]
    )
    await log.close()
    url = f"sqlite:///{tmp_path}/log.db"
    rows = in_order(analytics.events(spark, url, Clicked, strict=False))
    assert [row["page"] for row in rows] == ["/a", None]


@pytest.mark.usefixtures("spark")
def test_the_exported_ddl_is_what_its_columns_are() -> None:
    every: list[type[Event]] = [*shop.events, *third.post.events, ParcelPacked]
    for event in every:
        record = record_of(event)
        parsed = StructType.fromDDL(spark_ddl(record))
        assert parsed.simpleString() == struct_of(record).simpleString(), event


def read_by_java(spark: SparkSession, data: bytes, written: str, wanted: str) -> dict[str, Any]:
    """Return what Java's own Avro makes of an event's bytes, resolved from one schema to another."""
    avro = spark.sparkContext._jvm.org.apache.avro  # type: ignore[union-attr]  # noqa: SLF001  the classes that Spark brings
    writer, reader = (getattr(avro, "Schema$Parser")().parse(text) for text in (written, wanted))
    decoder = avro.io.DecoderFactory.get().binaryDecoder(bytearray(data[HEADER_BYTES:]), None)
    found: dict[str, Any] = json.loads(avro.generic.GenericDatumReader(writer, reader).read(None, decoder).toString())
    return found


async def test_javas_avro_reads_our_bytes(spark: SparkSession) -> None:
    codec = FramedCodec(MemoryLog())
    await codec.prepare([(TOPIC.name, ParcelPacked)])
    text = codec.schema_of(ParcelPacked).text
    for i in range(6):
        made, given = read_by_java(spark, codec.encode(ParcelPacked(**fields(i))), text, text), fields(i)
        assert (made["parcel_id"], made["offset"], made["mode"]) == (given["parcel_id"], given["offset"], given["mode"])
        assert made["marks"] == given["marks"]
        assert [(box["size"], box["litres"]) for box in made["shapes"]] == [
            (b.size.value, b.litres) for b in given["shapes"]
        ]
        assert made["by"] == str(given["by"])
        assert made["fragile"] is False


async def test_javas_avro_resolves_former_names_defaults_and_wider_types_as_we_do(spark: SparkSession) -> None:
    codec = FramedCodec(MemoryLog())
    await codec.prepare([("parcels", first.ParcelDelivered), ("parcels.requests", first.ParcelHandedIn)])
    old = [first.ParcelDelivered(parcel_id="1", signed="A. L."), first.story()[0]]
    new: list[type[Event]] = [second.ParcelDelivered, second.ParcelHandedIn]
    for event, today in zip(old, new, strict=True):
        data = codec.encode(event)
        made = read_by_java(spark, data, codec.schema_of(type(event)).text, codec.schema_of(today).text)
        assert made == codec.decode(today, data).model_dump(mode="json")
