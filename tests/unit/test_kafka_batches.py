"""Records become batches and come back; what others have written, and what is damaged, is told apart."""

import gzip
import tracemalloc
from random import Random
from struct import pack_into, unpack_from

import pytest
from aiokafka.record.default_records import DefaultRecordBatchBuilder
from aiokafka.record.util import calc_crc32c as crc32c

from eventlib.errors import ContractError, DamagedRecord
from eventlib.log.kafka.batches import Batch, Producing, batches, next_sequence
from eventlib.log.kafka.bounded_consumers import Batches as Inflated
from eventlib.log.kafka.chunk import Chunk
from eventlib.model.record import Record

NOBODY = Producing(-1, -1, transactional=False, compression=0)
PLACE = ("t", 0)


def some_record(random: Random) -> Record:
    def maybe(text: str) -> str | None:
        return None if random.random() < 0.3 else text + "ü☃"[: random.randrange(3)]

    return Record(
        "t",
        0,
        -1,
        random.randrange(2**42),
        random.choice([None, b"", random.randbytes(20)]),
        random.choice([None, b"", random.randbytes(random.randrange(300))]),
        maybe("id"),
        maybe("Type"),
        maybe("service/decider"),
        maybe("subject"),
        random.choice([None, 0, -1, 2**53]),
        maybe("correlation"),
        maybe("causation"),
        maybe("00-trace"),
        tuple((f"h{n}", random.randbytes(n)) for n in range(random.randrange(3))),
    )


def placed(made: list[Batch]) -> bytes:
    """Give batches their offsets, as a broker does."""
    found, offset = bytearray(), 0
    for batch in made:
        data = bytearray(batch.data)
        pack_into(">q", data, 0, offset)
        offset += len(batch.indexes)
        found += data
    return bytes(found)


_ABORT, _COMMIT = 0, 1
_FIRST_TIMESTAMP = 27  # in a batch's header, behind its checksum


def marker(producing: Producing, kind: int) -> Batch:
    """Return what a broker writes at the end of a transaction."""
    (batch,) = batches([Record("t", 0, -1, 1, kind.to_bytes(4), b"")], producing, {}, lambda _: 700)
    data = bytearray(batch.data)
    data[22] |= 0x20
    data[17:21] = crc32c(bytes(data[21:])).to_bytes(4)
    return batch._replace(data=bytes(data))


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("compression", [0, 1], ids=["plain", "gzip"])
def test_records_come_back_as_they_were(seed: int, compression: int) -> None:
    random = Random(seed)
    records = [some_record(random) for _ in range(200)]
    producing = NOBODY._replace(compression=compression)
    made = [*batches(records, producing, {}, lambda _: 10_000)]
    chunk = Chunk(PLACE, 0, placed(made), ())
    assert chunk.records == [record.replace(offset=n) for n, record in enumerate(records)]
    assert (chunk.next, chunk.is_empty) == (200, False)


def test_batches_are_cut_and_numbered() -> None:
    records = [Record("t", n % 2, -1, 1, b"k", b"x" * 100) for n in range(20)]
    made = [*batches(records, NOBODY, {("t", 1): 2**31 - 3}, lambda _: 700)]
    assert all(len(batch.data) <= 700 for batch in made)
    for partition, first in ((0, 0), (1, 2**31 - 3)):
        mine = [batch for batch in made if batch.topic_partition == ("t", partition)]
        assert len(mine) > 1
        assert [index for batch in mine for index in batch.indexes] == [*range(partition, 20, 2)]
        sequence = first
        for batch in mine:
            assert (batch.sequence, unpack_from(">i", batch.data, 53)[0]) == (sequence, sequence)
            sequence = next_sequence(sequence, len(batch.indexes))


def test_one_record_makes_a_batch_however_large_it_is() -> None:
    (batch,) = batches([Record("t", 0, -1, 1, None, b"x" * 5_000)], NOBODY, {}, lambda _: 700)
    assert len(batch.data) > 5_000


def test_headers_of_others_stay_headers() -> None:
    builder = DefaultRecordBatchBuilder(2, 0, 0, -1, -1, -1, 10_000)
    headers = [
        ("ce_specversion", b"1.0"),
        ("ce_id", b"\xff\xfe"),
        ("ce_sequence", b"seven"),
        ("ce_source", None),
        ("ce_time", b"2026-11-21T00:00:00Z"),
        ("h", None),
        ("ce_type", b"Known"),
    ]
    builder.append(0, 5, None, b"v", headers)
    (record,) = Chunk(PLACE, 0, bytes(builder.build()), ()).records
    assert (record.id, record.sequence, record.source, record.type) == (None, None, None, "Known")
    assert record.headers == (
        ("ce_id", b"\xff\xfe"),
        ("ce_sequence", b"seven"),
        ("ce_source", b""),
        ("ce_time", b"2026-11-21T00:00:00Z"),
        ("h", b""),
    )


def test_a_batch_whose_bytes_were_changed_is_damage() -> None:
    (batch,) = batches([Record("t", 0, -1, 1, b"k", b"value")], NOBODY, {}, lambda _: 700)
    chunk = Chunk(PLACE, 0, batch.data.replace(b"value", b"VALUE"), ())
    with pytest.raises(DamagedRecord, match="t/0/0") as caught:
        assert chunk.records
    assert (caught.value.offset, caught.value.resume_at, chunk.next) == (0, 1, 1)


def test_a_compressed_batch_whose_header_was_changed_is_not_sealed_again_as_if_it_were_whole() -> None:
    """For Faust's consumer, which gets batches inflated: with a checksum of their own, it would take them for whole."""
    (batch,) = batches([Record("t", 0, -1, 1, b"k", b"value")], NOBODY._replace(compression=1), {}, lambda _: 700)
    bounded = type("Bounded", (Inflated,), {"topic_partition": PLACE, "most_bytes": 10**6})
    assert bounded(batch.data).next_batch().validate_crc()
    changed = bytearray(batch.data)
    changed[_FIRST_TIMESTAMP] ^= 1
    assert not bounded(bytes(changed)).next_batch().validate_crc()


def test_a_batch_is_inflated_within_bounds() -> None:
    records = [Record("t", 0, -1, 1, None, bytes(1_000_000)) for _ in range(300)]
    zipped = NOBODY._replace(compression=1)
    data = placed([*batches(records, zipped, {}, lambda _: 1_000_000_000)])
    assert len(data) < 400_000
    tracemalloc.start()
    try:
        chunk = Chunk(PLACE, 0, data, (), 10_000_000)
        assert not chunk.is_empty
        for use in (lambda: chunk.records, lambda: chunk.keep_newest(0, {}, None)):
            with pytest.raises(
                ContractError, match=r"t/0 .* at 0: .* more than 10,000,000; EVENTLIB_KAFKA_INFLATED_BYTES"
            ):
                use()
        assert tracemalloc.get_traced_memory()[1] < 40_000_000
    finally:
        tracemalloc.stop()


def test_batches_that_are_too_many_when_inflated_come_one_fetch_after_the_other() -> None:
    records = [Record("t", 0, -1, 1, None, bytes(1_000_000)) for _ in range(5)]
    data = placed([*batches(records, NOBODY._replace(compression=1), {}, lambda _: 1_100_000)])
    seen = list[int]()
    while len(seen) < 5:
        chunk = Chunk(PLACE, len(seen), batches_from(data, len(seen)), (), 2_500_000)
        assert len(chunk.records) <= 2, "more would be over the bound together"
        assert [record.offset for record in chunk.records] == [*range(len(seen), chunk.next)]
        seen += [record.offset for record in chunk.records]
    assert seen == [*range(5)]


def test_what_was_aborted_is_left_out_and_what_its_producer_wrote_later_is_not() -> None:
    transactional = Producing(7, 0, transactional=True, compression=0)

    def written(value: bytes) -> Batch:
        (batch,) = batches([Record("t", 0, -1, 1, b"k", value)], transactional, {}, lambda _: 700)
        return batch

    data = placed(
        [written(b"aborted"), marker(transactional, _ABORT), written(b"kept"), marker(transactional, _COMMIT)]
    )
    chunk = Chunk(PLACE, 0, data, [(7, 0)])
    assert [(record.offset, record.value) for record in chunk.records] == [(2, b"kept")]
    assert chunk.next == 4


def test_a_chunk_of_markers_has_nothing_and_is_gone_past() -> None:
    data = placed([marker(Producing(7, 0, transactional=True, compression=0), _COMMIT)])
    chunk = Chunk(PLACE, 0, data, None)  # type: ignore[arg-type]  # what a broker sends for none
    assert (chunk.is_empty, chunk.is_refused, chunk.records, chunk.next) == (True, False, [], 1)


@pytest.mark.parametrize(
    ("offset", "kind", "kept"),
    [(1, None, {b"a": b"4", b"c": b"5"}), (1, "T", {b"a": b"4"}), (5, None, {b"b": b"older", b"c": b"5"})],
)
def test_the_newest_of_each_key_is_kept_from_an_offset_on(
    offset: int, kind: str | None, kept: dict[bytes, bytes]
) -> None:
    values = [
        (b"a", b"0", "T"),
        (b"b", b"1", "T"),
        (b"b", None, "T"),
        (None, b"3", "T"),
        (b"a", b"4", "T"),
        (b"c", b"5", "U"),
    ]
    records = [Record("t", 0, -1, 1, key, value, None, type_) for key, value, type_ in values]
    chunk = Chunk(PLACE, 0, placed([*batches(records, NOBODY, {}, lambda _: 10_000)]), ())
    found = {b"b": b"older"}
    chunk.keep_newest(offset, found, kind)
    assert found == kept


@pytest.mark.parametrize(("number", "name"), [(2, "snappy"), (3, "lz4"), (4, "zstd")])
def test_a_compression_that_is_not_bounded_is_refused(number: int, name: str) -> None:
    (batch,) = batches([Record("t", 0, -1, 1, b"k", b"v")], NOBODY, {}, lambda _: 700)
    data = bytearray(batch.data)
    data[22] |= number
    data[17:21] = crc32c(bytes(data[21:])).to_bytes(4)
    chunk = Chunk(PLACE, 0, bytes(data), ())
    with pytest.raises(ContractError, match=f"t/0 cannot be read at 0: its batch is compressed with {name}"):
        _ = chunk.records
    assert (chunk.is_refused, chunk.next) == (True, 1), "else what fetches it would fetch it again"


def batches_from(data: bytes, offset: int) -> bytes:
    """Return the batches from that offset on."""
    at = 0
    while at < len(data) and int.from_bytes(data[at : at + 8]) < offset:
        at += 12 + int.from_bytes(data[at + 8 : at + 12])
    return data[at:]


def test_a_batch_that_came_in_part_is_left_for_later() -> None:
    records = [Record("t", 0, -1, 1, None, gzip.compress(b"x" * n)) for n in range(10)]
    data = placed([*batches(records, NOBODY, {}, lambda _: 200)])
    chunk = Chunk(PLACE, 0, data[:-1], ())
    assert 0 < len(chunk.records) < 10
    assert chunk.next == len(chunk.records)
