"""Columns are hashed as single keys are, and a share's records come in time order from packs that overlap."""

from collections.abc import Sequence

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from analytics import task_pass
from analytics.audit.application import Application
from analytics.audit.newest import ByKey, newest_of_all
from analytics.audit.order import NO_TASK
from analytics.audit.packs import Pack, packed, sorted_on_disk, unpacked
from analytics.audit.rows import RECORD
from analytics.hashing import hashes, numbers_of, partitions_of
from analytics.task_pass import SharePacking, past_of_shares
from eventlib.model.topic import PARTITIONERS, Topic

_TEXTS = st.lists(st.none() | st.text(max_size=40))


@given(_TEXTS, st.integers(0, 3))
def test_keys_of_a_column_have_the_partitions_of_single_keys(keys: list[str | None], skipped: int) -> None:
    topic, column = Topic("any", partitions=7), pa.array(keys, pa.string()).slice(skipped)
    expected = [topic.partition_of((key or "").encode()) for key in keys[skipped:]]
    assert partitions_of(topic, column).tolist() == expected
    assert partitions_of(topic, column.cast(pa.binary())).tolist() == expected


def test_another_partitioner_is_asked_for_each_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(PARTITIONERS, "length", lambda key, partitions: len(key) % partitions)
    topic = Topic("any", partitions=3, partitioner="length")
    assert partitions_of(topic, pa.array(["a", None, "four", "a"])).tolist() == [1, 0, 1, 1]


@given(_TEXTS)
def test_equal_texts_have_one_hash_and_others_another(texts: list[str | None]) -> None:
    found = hashes(pa.array(texts, pa.string())).tolist()
    assert len(set(zip(texts, found, strict=True))) == len(set(texts)) == len(set(found))
    assert [number for number, text in zip(found, texts, strict=True) if text is None] == [0] * texts.count(None)
    assert found == [hashes(pa.array([text], pa.string()))[0] for text in texts]


@pytest.mark.parametrize("is_dictionary", [False, True])
def test_a_number_is_asked_for_once_for_each_value(is_dictionary: bool) -> None:
    texts = pa.array(["b", None, "a", "b"])
    column = texts.dictionary_encode() if is_dictionary else texts
    asked = list[str]()

    def number(value: str) -> int:
        asked.append(value)
        return ord(value)

    assert numbers_of(column, number).tolist() == [98, -1, 97, 98]
    assert sorted(asked) == ["a", "b"]


@given(st.lists(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 9)), min_size=1, max_size=8), min_size=1))
def test_records_come_by_time_and_offset_however_packs_overlap(times: list[list[tuple[int, int]]]) -> None:
    packs = [_pack(number, rows) for number, rows in enumerate(times)]
    with pytest.MonkeyPatch.context() as few:
        few.setattr(task_pass, "_AT_ONCE", 3)
        (share, found), *others = ((share, [*rows]) for share, rows in past_of_shares(sorted(packs)))
    assert (share, others) == (5, [])
    places = [(at_ms, record.offset) for record, at_ms, _ in found]
    assert places == sorted((at_ms, offset) for rows in times for at_ms, offset in rows)


def _pack(number: int, rows: Sequence[tuple[int, int]]) -> Pack:
    count = len(rows)
    known = {"partition": pa.array([0] * count, pa.int32()), "topic": pa.array([f"topic{number}"] * count)}
    known["at_ms"], known["offset"] = (pa.array(values, pa.int64()) for values in zip(*rows, strict=True))
    kinds = {"value": pa.binary(), "sequence": pa.int64(), "headers": pa.list_(pa.struct([("name", pa.string())]))}
    columns = [known.get(name, pa.nulls(count, kinds.get(name, pa.string()))) for name in RECORD.names]
    names = [*RECORD.names, "emitting"]
    batch = pa.RecordBatch.from_arrays([*columns, pa.array([NO_TASK] * count)], names)
    return (5, min(at_ms for at_ms, _ in rows)), packed(batch)


@given(
    st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 1), st.integers(0, 30), st.sampled_from("xyz"))),
    st.integers(1, 3),
)
def test_the_newest_state_of_each_key_is_kept_of_the_deciders_that_are_asked_for(
    rows: list[tuple[str, int, int, str]], batches: int
) -> None:
    names = ["topic", "partition", "offset", "at_ms", "key", "value", "id"]
    kinds = [pa.string(), pa.int32(), pa.int64(), pa.int64(), pa.binary(), pa.binary(), pa.string()]
    stored = [
        (topic, partition, offset, 0, f"state/{key}/1".encode(), b"", None) for topic, partition, offset, key in rows
    ]

    def batch(part: Sequence[tuple[object, ...]]) -> pa.RecordBatch:
        columns = zip(*part, strict=True) if part else [()] * len(names)
        return pa.RecordBatch.from_arrays([pa.array(c, k) for c, k in zip(columns, kinds, strict=True)], names)

    packed_rows = ByKey(("x", "y"), 2)(batch(stored[n::batches]) for n in range(batches))
    by_group = dict[int, list[Pack]]()
    for pack in packed_rows:
        by_group.setdefault(pack[0][0], []).append(pack)
    found = [each for group in by_group.values() for each in newest_of_all(group)]
    expected = dict[tuple[str, int, str], int]()
    for topic, partition, offset, key in rows:
        if key != "z":
            place = topic, partition, f"state/{key}/1"
            expected[place] = max(offset, expected.get(place, 0))
    assert {(each.topic, each.partition, each.key): each.offset for each in found} == expected
    assert len(found) == len(expected)


@given(st.lists(st.tuples(st.integers(0, 3), st.binary(max_size=9)), max_size=20))
def test_packs_are_sorted_on_disk(given_packs: list[tuple[int, bytes]]) -> None:
    packs = [((5, oldest), data) for oldest, data in given_packs]
    assert [*sorted_on_disk(iter(packs))] == sorted(packs, key=lambda pack: pack[0])


def test_a_share_has_each_record_once_in_packs_that_are_small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(task_pass, "_ROWS_OF_A_PACK", 2)
    packing, rows = SharePacking(Application(), 2), [(at_ms, at_ms) for at_ms in range(7)]
    batch = unpacked(_pack(0, rows)[1]).drop_columns("emitting")
    kind, partitions = pa.array(["OrderPlaced"] * len(rows)), pa.array([0, 0, 0, 0, 0, 1, 3], pa.int32())
    batch = batch.set_column(RECORD.names.index("type"), "type", kind)
    batch = batch.set_column(RECORD.names.index("partition"), "partition", partitions)
    packs = [*packing([batch])]
    found = [(share, unpacked(data)["at_ms"].to_pylist()) for (share, _), data in packs]
    assert found == [(0, [0, 1]), (0, [2, 3]), (0, [4]), (1, [5, 6])]
    assert [oldest for (_, oldest), _ in packs] == [times[0] for _, times in found]
