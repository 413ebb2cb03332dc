"""Whichever record of a log is damaged: a replay names it, and calls nothing decided otherwise that depends on it."""

import re
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

from eventlib import open_log
from eventlib.replay import Report, replay
from services import shop
from tests.in_rows import in_rows
from tests.integration.shop_log import fill_ended
from tests.integration.test_damage import change

NOT_REPLAYED = re.compile(r"_schemas$|\.(changelog|parked|latest)$")
HURT = "UPDATE records SET value = x'00' WHERE position = ?"


async def replayed(path: Path) -> Report:
    async with open_log(f"sqlite:///{path}", shop, read_only=True) as log:
        return await replay(log)


async def test_a_replay_names_what_is_damaged_and_compares_the_rest(tmp_path: Path) -> None:
    async with open_log(f"sqlite:///{tmp_path / 'log.db'}", shop) as log:
        await fill_ended(log)
    with closing(sqlite3.connect(in_rows(tmp_path / "log.db"))) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        topics = dict(connection.execute("SELECT number, topic FROM partitions"))
        every = [position for (position,) in connection.execute("SELECT position FROM records")]
    whole, compared = await replayed(tmp_path / "log.db"), list[int]()
    for position in every:
        if NOT_REPLAYED.search(topics[position >> 40]):
            continue
        shutil.copytree(tmp_path, hurt := tmp_path.with_name("hurt"))
        change(hurt / "log.db", HURT, position)
        report = await replayed(hurt / "log.db")
        assert report.same, (topics[position >> 40], report.first or report.unknown)
        assert [each.split("/")[0] for each in report.damaged] == [topics[position >> 40]]
        compared.append(report.decisions)
        shutil.rmtree(hurt)
    assert len(compared) > 50
    assert all(0 < each <= whole.decisions for each in compared)
    assert min(compared) < whole.decisions
