"""Whichever record of a log is damaged: a replay names it, and calls nothing decided otherwise that depends on it."""

import re
from pathlib import Path

from eventlib import open_log
from eventlib.replay import Report, replay
from services import shop
from tests.integration.damaging import BEYOND_PROOF, hurt, topics_in
from tests.integration.shop_log import fill_ended

NOT_REPLAYED = re.compile(r"_schemas$|\.(changelog|parked|latest)$")
HURT = "UPDATE records SET value = x'00' WHERE position = ?"


async def replayed(path: Path) -> Report:
    async with open_log(f"sqlite:///{path}", shop, read_only=True) as log:
        return await replay(log)


async def filled(directory: Path) -> dict[int, str]:
    """Fill a log, each record of which has a row, and return the topics of all of them by their positions."""
    async with open_log(f"sqlite:///{directory / 'log.db'}", shop) as log:
        await fill_ended(log)
    return topics_in(directory)


async def replayed_damaged(directory: Path, sql: str, position: int) -> Report:
    with hurt(directory, position, sql) as file:
        return await replayed(file)


async def test_a_replay_names_what_is_damaged_and_compares_the_rest(tmp_path: Path) -> None:
    topics = await filled(tmp_path)
    whole, compared = await replayed(tmp_path / "log.db"), list[int]()
    for position, topic in topics.items():
        if NOT_REPLAYED.search(topic):
            continue
        report = await replayed_damaged(tmp_path, HURT, position)
        assert report.same, (topic, report.first or report.unknown)
        assert [each.split("/")[0] for each in report.damaged] == [topic]
        compared.append(report.decisions)
    assert len(compared) > 50
    assert all(0 < each <= whole.decisions for each in compared)
    assert min(compared) < whole.decisions


async def test_a_damaged_schema_that_the_code_still_has_is_proved_by_its_checksum(tmp_path: Path) -> None:
    schemas = [position for position, topic in (await filled(tmp_path)).items() if topic == "_schemas"]
    whole = await replayed(tmp_path / "log.db")
    for position in schemas:
        assert await replayed_damaged(tmp_path, HURT, position) == whole
    assert len(schemas) > 50


async def test_what_a_lost_schema_has_written_is_unknown_and_does_not_differ(tmp_path: Path) -> None:
    schemas = [position for position, topic in (await filled(tmp_path)).items() if topic == "_schemas"]
    whole, lost = await replayed(tmp_path / "log.db"), 0
    for position in schemas:
        report = await replayed_damaged(tmp_path, BEYOND_PROOF, position)
        assert report.same, (position, report.first or report.unknown)
        if report != whole:
            assert [each.split("/")[0] for each in report.damaged] == ["_schemas"]
            assert 0 < report.decisions < whole.decisions
            assert all(" is not compared where a schema is damaged" in note for note in report.notes)
            lost += 1
    assert lost > 10
