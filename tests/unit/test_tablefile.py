"""The file that keeps a table: what was written is read, and what is damaged anywhere is not."""

from pathlib import Path
from random import Random

import pytest

from eventlib.tablefile import Copy, TableFile

COPY = Copy({f"k{n}".encode(): b"v" * (n % 40) for n in range(7_000)}, {("t", 0): 5, ("t", 1): 0})


def written(path: Path, copy: Copy = COPY) -> TableFile:
    file = TableFile(path, ["log", "t", "E"])
    for _ in file.write(copy):
        pass
    return file


@pytest.mark.parametrize("copy", [COPY, Copy({}, {}), Copy({b"": b""}, {("t", 0): 1})])
def test_what_was_written_is_read(tmp_path: Path, copy: Copy) -> None:
    assert written(tmp_path / "t", copy).read() == copy


def test_what_is_not_there_is_not_read(tmp_path: Path) -> None:
    assert TableFile(tmp_path / "t", []).read() is None
    assert TableFile(tmp_path, []).read() is None


def test_a_table_of_something_else_is_not_read(tmp_path: Path) -> None:
    written(tmp_path / "t")
    assert TableFile(tmp_path / "t", ["log", "t", "F"]).read() is None


def test_a_file_that_is_cut_off_or_changed_anywhere_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "t"
    file = written(path)
    whole, dice = path.read_bytes(), Random(7)
    for at in [*range(60), *(dice.randrange(len(whole)) for _ in range(200))]:
        path.write_bytes(whole[:at])
        assert file.read() is None
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 1 << dice.randrange(8)]) + whole[at + 1 :])
        assert file.read() is None


def test_a_write_that_is_given_up_leaves_what_was_there(tmp_path: Path) -> None:
    file = written(tmp_path / "t")
    writing = file.write(Copy({b"%d" % n: b"" for n in range(20_000)}, {}))
    next(writing)
    writing.close()
    assert file.read() == COPY
    assert [each.name for each in tmp_path.iterdir()] == ["t"]
