"""What a RocksDB store does beyond the public suite: damage, other processes, kill -9."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from eventlib.errors import LogUnavailable
from eventlib.state.rocksdb import RocksStores

pytestmark = pytest.mark.heavy

LOG = "the log's id"
HOLD = """
import sys
from eventlib.state.rocksdb import RocksStores
store = RocksStores(sys.argv[1]).open("s", 0, 1, "the log's id")
for i in range(1, 500):
    store.write({"k": b"%d" % i, f"k{i}": b"x" * 1000}, i)
print("written", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def holder(tmp_path: Path) -> "Iterator[subprocess.Popen[str]]":
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "written\n"
    yield process
    process.kill()
    process.communicate()


def test_what_a_killed_process_wrote_is_there(holder: "subprocess.Popen[str]", tmp_path: Path) -> None:
    holder.kill()
    holder.wait()
    stores = RocksStores(tmp_path)
    store = stores.open("s", 0, 2, LOG)
    assert (store.checkpoint, store.get("k"), len(list(store.scan("k")))) == (499, b"499", 500)
    stores.close()


def test_a_task_held_by_a_stopped_process_gets_a_database_beside_it(
    holder: "subprocess.Popen[str]", tmp_path: Path
) -> None:
    stores = RocksStores(tmp_path)
    store = stores.open("s", 0, 2, LOG)
    assert store.checkpoint == 0
    store.write({"k": b"mine"}, 700)
    holder.kill()
    holder.wait()
    assert store.get("k") == b"mine"
    stores.close()


def test_the_last_owner_in_a_process_lets_others_have_it(tmp_path: Path) -> None:
    mine, theirs = RocksStores(tmp_path), RocksStores(tmp_path)
    store = mine.open("s", 0, 1, LOG)
    store.write({"k": b"1"}, 5)
    store.close()
    assert theirs.open("s", 0, 2, LOG).checkpoint == 5
    mine.close()
    theirs.close()


@pytest.mark.parametrize("damaged", ["MANIFEST-*", "CURRENT", "*.sst"])
def test_a_damaged_database_is_begun_anew(tmp_path: Path, damaged: str) -> None:
    stores = RocksStores(tmp_path)
    store = stores.open("s", 0, 1, LOG)
    for i in range(3_000):
        store.write({f"{i}": bytes(1_000)[:-8] + i.to_bytes(8, "big")}, i + 1)
    stores.close()
    found = list((tmp_path / "s" / "0").glob(damaged))
    assert found
    for path in found:
        path.write_bytes(b"garbage" * 50)
    stores = RocksStores(tmp_path)
    try:
        store = stores.open("s", 0, 2, LOG)
        list(store.scan(""))
    except LogUnavailable as error:
        assert "restore the changelog" in str(error)  # noqa: PT017  opening may see the damage, or reading
        store = stores.open("s", 0, 2, LOG)
    assert (store.checkpoint, list(store.scan(""))) == (0, [])
    store.write({"k": b"1"}, 1)
    assert store.get("k") == b"1"
    stores.close()


def test_a_directory_that_is_a_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "s").write_text("in the way")
    with pytest.raises(LogUnavailable, match=str(tmp_path / "s")):
        RocksStores(tmp_path).open("s", 0, 1, LOG)
