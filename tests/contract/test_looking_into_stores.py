"""A store can be looked into while its owner writes it: nothing is taken from the owner, and nothing is changed."""

from collections.abc import Callable
from pathlib import Path

import pytest

from eventlib.errors import LogCorrupt, LogUnavailable
from eventlib.state.inspect import snapshots_in
from eventlib.state.open import open_stores, store_directory

URLS: list[Callable[[Path], str]] = [lambda place: f"sqlite:///{place}/shop.db", lambda _: "kafka://host:9092/"]


def seen(url: str, state_dir: Path) -> list[tuple[object, ...]]:
    return [
        (each.service, each.partition, each.log_id, each.checkpoint, each.position, dict(each.values))
        for each in snapshots_in(url, str(state_dir), "position")
    ]


@pytest.mark.parametrize("url_in", URLS, ids=["sqlite", "rocksdb"])
def test_what_is_written_is_seen_and_the_owner_goes_on(url_in: Callable[[Path], str], tmp_path: Path) -> None:
    url = url_in(tmp_path)
    assert seen(url, tmp_path) == []
    stores = open_stores(url, str(tmp_path))
    order = stores.open("order", 3, 1, "log")
    order.write({"position": b"here", "state/order/1": b"one"}, 7)
    whole = {"position": b"here", "state/order/1": b"one"}
    assert seen(url, tmp_path) == [("order", 3, "log", 7, b"here", whole)]
    order.write({"state/order/1": None, "state/order/2": b"two"}, 9)
    assert seen(url, tmp_path) == [("order", 3, "log", 9, b"here", {"position": b"here", "state/order/2": b"two"})]
    stores.open("stock", 0, 1, "log").write({"a": b"1"}, 1)
    stores.close()
    assert [each[:5] for each in seen(url, tmp_path)] == [("order", 3, "log", 9, b"here"), ("stock", 0, "log", 1, None)]


def test_in_memory_there_is_nothing_to_look_into(tmp_path: Path) -> None:
    assert seen("memory:", tmp_path) == []


@pytest.mark.parametrize("url_in", URLS, ids=["sqlite", "rocksdb"])
def test_what_is_damaged_is_said_and_left_as_it_is(url_in: Callable[[Path], str], tmp_path: Path) -> None:
    url = url_in(tmp_path)
    stores = open_stores(url, str(tmp_path))
    stores.open("order", 3, 1, "log").write({"position": b"here"}, 7)
    stores.close()
    directory = store_directory(url, str(tmp_path))
    assert directory is not None
    files = [path for path in directory.rglob("*") if path.name == "CURRENT" or path.suffix == ".db"]
    for path in files:
        path.write_bytes(b"no database at all, but longer than a header of one hundred bytes " * 4)
    with pytest.raises((LogCorrupt, LogUnavailable), match="state store"):
        seen(url, tmp_path)
    assert files
    assert all(path.read_bytes().startswith(b"no database") for path in files)
