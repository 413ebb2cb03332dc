"""A backup put back: nothing is lost in silence, whatever is there instead and wherever it is cut short."""

from contextlib import closing, nullcontext
from pathlib import Path

import pytest

from eventlib.errors import LogCorrupt, LogUnavailable, WiringError
from eventlib.log.sqlite.connection import connect
from eventlib.log.sqlite.high_water import losses, mark_path
from eventlib.log.sqlite.log import SqliteLog
from eventlib.model.topic import Topic
from eventlib.operations.backup.restore import restore
from eventlib.state.sqlite import SqliteStores
from tests.contract.backed_up import ORDERS, cleared, content, made, numbered, opened
from tests.contract.processes import line_of, process


async def lost(tmp_path: Path) -> tuple[Path, Path, str]:
    """Return a log that went on after its backup, that backup, and the log's id."""
    place = tmp_path / "log.db"
    log = await opened(place, ORDERS, Topic("bank.changelog", partitions=1, compacted=True))
    await log.append([*numbered("orders", 10), *numbered("bank.changelog", 4)])
    made(place, tmp_path / "backup.db")
    await log.append([*numbered("orders", 3, 10), *numbered("bank.changelog", 2, 4)])
    store = (stores := SqliteStores(Path(f"{place}.state"))).open("bank", 0, 1, log.log_id)
    store.write({"key": b"1"}, 6)
    stores.close()
    await log.close()
    return place, tmp_path / "backup.db", log.log_id


async def test_a_log_that_has_more_is_replaced_only_by_force_and_what_is_lost_is_named(tmp_path: Path) -> None:
    place, backup, former = await lost(tmp_path)
    before = content(place)
    with pytest.raises(WiringError, match=r"5 records more.*orders/0 from 10 to 12.*--force"):
        await restore(backup, place, None, None)
    assert content(place) == before
    done = await restore(backup, place, None, "ada: the disk is going")
    assert done.replaced is not None
    assert content(done.replaced) == before
    assert [(each.topic, each.first, each.end) for each in done.testimony.behind] == [
        ("bank.changelog", 4, 6),
        ("orders", 10, 13),
    ]
    log = await SqliteLog.open(place)
    assert log.log_id == done.log_id != former
    assert await log.append(numbered("orders", 1)) == [10]
    await log.close()
    with closing(connect(place)) as connection:
        assert [(each.records, each.reason) for each in losses(connection)] == [(5, "ada: the disk is going")]
    stores = SqliteStores(Path(f"{place}.state"))  # of the log that was: nothing of it is used
    store = stores.open("bank", 0, 1, log.log_id)
    assert (store.checkpoint, store.get("key")) == (0, None)
    stores.close()


@pytest.mark.parametrize("witness", ["mark", "stores", "live", "none"])
async def test_each_witness_of_what_is_lost_is_heard(tmp_path: Path, witness: str) -> None:
    place, backup, former = await lost(tmp_path)
    live = None
    if witness == "live":
        live = f"sqlite:///{tmp_path}/moved.db"
        place.rename(tmp_path / "moved.db")
    mark = mark_path(place).read_bytes()
    cleared(place)
    if witness == "mark":
        mark_path(place).write_bytes(mark)
    if witness != "stores":
        cleared(Path(f"{place}.state") / "bank.db")
    done = await restore(backup, place, live, None)
    assert done.is_another == (witness != "none")
    assert done.testimony.missing == {"mark": 5, "stores": 2, "live": 5, "none": 0}[witness]
    if witness == "live":
        assert {each.topic: each.keys for each in done.testimony.behind}["orders"] == ("key-0", "key-1", "key-2")
    log = await SqliteLog.open(place)
    assert (log.log_id == former) == (witness == "none")
    await log.append(numbered("orders", 1))
    await log.close()


async def test_a_restore_of_all_that_was_acknowledged_keeps_the_id_so_that_stores_go_on(tmp_path: Path) -> None:
    place = tmp_path / "log.db"
    log = await opened(place)
    await log.append(numbered("orders", 10))
    await log.close()
    backup = made(place, tmp_path / "backup.db")
    place.write_bytes(place.read_bytes()[:4096])  # the disk has lost most of it
    with pytest.raises(WiringError, match="cannot determine whether"):
        await restore(backup.file, place, None, None)
    done = await restore(backup.file, place, None, "ada: it is damaged")
    assert not done.is_another
    assert done.log_id == log.log_id
    again = await SqliteLog.open(place)
    assert await again.append(numbered("orders", 1)) == [10]
    await again.close()


async def test_a_log_that_is_open_or_another_one_is_not_replaced(tmp_path: Path) -> None:
    place, backup, _ = await lost(tmp_path)
    with process("append", tmp_path / "other.db", "one") as writer:
        line_of(writer)
        with pytest.raises(LogUnavailable, match="stop them first"):
            await restore(backup, tmp_path / "other.db", None, "force")
    with pytest.raises(WiringError, match="is another log"):
        await restore(backup, tmp_path / "other.db", None, None)
    assert place.exists()


@pytest.mark.parametrize("step", range(4))
async def test_a_restore_that_is_cut_short_never_leaves_a_log_that_looks_whole(
    tmp_path: Path, step: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    place, backup, former = await lost(tmp_path)
    steps, rename = 0, Path.rename

    def cut_short(source: Path, target: Path) -> Path:
        nonlocal steps
        steps += 1
        if steps > step:
            raise RuntimeError
        return rename(source, target)

    with monkeypatch.context() as patch, pytest.raises(RuntimeError) if step < 3 else nullcontext():
        patch.setattr(Path, "rename", cut_short)
        await restore(backup, place, None, "force")
    if step in {1, 2}:
        with pytest.raises(LogCorrupt, match="is empty"):
            await SqliteLog.open(place)
    await restore(backup, place, None, "force")
    log = await SqliteLog.open(place)
    assert log.log_id != former
    await log.append(numbered("orders", 1))
    await log.close()
