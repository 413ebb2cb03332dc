"""The file that keeps a table: what was written is read, and what is damaged anywhere is not."""

from collections.abc import Mapping
from pathlib import Path
from random import Random

import pytest

from eventlib.log.base import TopicPartition
from eventlib.state.table_snapshot import TableFile, Values

FOUND = {f"k{n}".encode(): b"v" * (n % 40) for n in range(7_000)}
POSITIONS: Mapping[TopicPartition, int] = {("t", 0): 5, ("t", 1): 0}


def values_of(found: Mapping[bytes, bytes]) -> Values:
    values = Values()
    values.update(found)
    return values


def written(path: Path, values: Values) -> TableFile:
    file = TableFile(path, ["log", "t", "E"])
    for _ in file.write(values, POSITIONS):
        pass
    return file


@pytest.mark.parametrize("found", [FOUND, {}, {b"": b""}])
def test_what_was_written_is_read(tmp_path: Path, found: Mapping[bytes, bytes]) -> None:
    read = written(tmp_path / "t", values_of(found)).read()
    assert read is not None
    values, positions = read
    assert len(values) == len(found)
    assert positions == POSITIONS
    assert dict(values) == found


def test_what_was_read_is_a_mapping_like_any_other(tmp_path: Path) -> None:
    """Also where most of it was not looked at yet, and when it is written again."""
    dice, expected = Random(5), dict(FOUND)
    file = written(tmp_path / "t", values_of(FOUND))
    for _ in range(3):
        read = file.read()
        assert read is not None
        values = read[0]
        for _ in range(300):
            key = b"k%d" % dice.randrange(9_000)
            assert values.get(key) == expected.get(key)
            assert (key in values) == (key in expected)
            if dice.random() < 0.5:
                values[key] = expected[key] = b"new"
            else:
                assert values.pop(key, None) == expected.pop(key, None)
            assert len(values) == len(expected)
        file = written(tmp_path / "t", values)
    assert dict(values) == expected


def test_what_is_not_there_is_not_read(tmp_path: Path) -> None:
    assert TableFile(tmp_path / "t", []).read() is None
    assert TableFile(tmp_path, []).read() is None
    (tmp_path / "t").write_bytes(b"")
    assert TableFile(tmp_path / "t", []).read() is None


def test_a_table_of_something_else_is_not_read(tmp_path: Path) -> None:
    written(tmp_path / "t", values_of(FOUND))
    assert TableFile(tmp_path / "t", ["log", "t", "F"]).read() is None


def test_a_file_that_is_cut_off_or_changed_anywhere_is_not_read(tmp_path: Path) -> None:
    path, dice = tmp_path / "t", Random(7)
    file = written(path, values_of(FOUND))
    whole = path.read_bytes()
    for at in [*range(60), *(dice.randrange(len(whole)) for _ in range(200))]:
        path.write_bytes(whole[:at])
        assert file.read() is None
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 1 << dice.randrange(8)]) + whole[at + 1 :])
        assert file.read() is None


def test_a_write_that_is_given_up_leaves_what_was_there(tmp_path: Path) -> None:
    file = written(tmp_path / "t", values_of(FOUND))
    writing = file.write(values_of({b"other": b""}), {})
    next(writing)
    del writing
    read = file.read()
    assert read is not None
    assert dict(read[0]) == FOUND
    assert [each.name for each in tmp_path.iterdir()] == ["t"]
