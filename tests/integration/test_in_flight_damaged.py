"""Whichever record of a log is damaged: the check before a deployment names it, and calls nothing stuck that depends on it."""

import asyncio
import json
from pathlib import Path

import pytest

from eventlib import open_log
from eventlib.replay import PreflightReport, gate
from services import shop
from services.order.decider import orders
from tests.commands import ended
from tests.integration.damaging import BEYOND_PROOF, change, hurt, topics_in
from tests.integration.shop_log import order, served, supplied

ENDED = ("a", "b")
CHANGELOGS = 6
"""Of how many records of a changelog one is damaged: many of them are of one kind."""


async def checked(path: Path) -> PreflightReport:
    async with open_log(f"sqlite:///{path}", shop, read_only=True) as log:
        return await gate(log)


async def checked_damaged(directory: Path, position: int) -> PreflightReport:
    with hurt(directory, position) as file:
        return await checked(file)


async def filled(directory: Path) -> dict[int, str]:
    """Fill a log with two ended orders and one whose charge is parked; return its records' topics by their positions."""
    async with open_log(f"sqlite:///{directory / 'log.db'}", shop) as log:
        await supplied(log)
        await log.publish_many([order(key) for key in (*ENDED, "broken")])
        await served(log)
    return topics_in(directory)


async def test_damage_is_named_and_nothing_is_stuck_that_depends_on_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    topics = await filled(tmp_path)
    (deadline,) = orders.deadlines.values()
    monkeypatch.setattr(deadline, "due_at", lambda _: None)  # only its parked charge lets it progress
    whole = await checked(tmp_path / "log.db")
    assert whole.is_open
    assert whole.standing.in_flight == 1
    seen, doubtful, changelogs = set[str](), set[str](), 0
    for position, topic in topics.items():
        if topic == "_schemas" or topic.endswith((".latest", ".parked", ".journal")):
            continue
        if topic.endswith(".changelog") and (changelogs := changelogs + 1) % CHANGELOGS:
            continue
        found = await checked_damaged(tmp_path, position)
        assert [each.split("/")[0] for each in found.damaged] == [topic]
        assert not found.is_open
        assert (found.standing.stranded, found.standing.unreadable, found.report.differences) == ((), (), 0)
        seen.add(topic)
        doubtful |= {each.saga for each in found.standing.doubtful}
    assert {"orders", "order.requests", "order.changelog", "payment.changelog"} <= seen
    assert {*ENDED} <= doubtful, "whose final events are damaged"


async def test_what_a_lost_schema_has_written_is_not_known(tmp_path: Path) -> None:
    schemas = [position for position, topic in (await filled(tmp_path)).items() if topic == "_schemas"]
    lost = 0
    for position in schemas[::3]:
        found = await checked_damaged(tmp_path, position)
        assert (found.standing.stranded, found.standing.unreadable, found.report.differences) == ((), (), 0)
        assert found.is_open is not bool(found.damaged)
        lost += bool(found.standing.damaged)
    assert lost > 1


async def test_a_damaged_journal_leaves_unknown_whether_the_code_can_take_over(tmp_path: Path) -> None:
    topics = await filled(tmp_path)
    found = await checked_damaged(tmp_path, [at for at, topic in topics.items() if topic == "payment.journal"][-1])
    assert [each.split("/")[0] for each in found.damaged] == ["payment.journal"]
    assert found.standing.damaged == ()
    assert not found.is_open


async def test_the_command_says_that_it_is_not_known(tmp_path: Path) -> None:
    topics = await filled(tmp_path)
    change(tmp_path / "log.db", BEYOND_PROOF, next(at for at, topic in topics.items() if topic == "orders"))
    asked = ("replay", "--in-flight", "--log", f"sqlite:///{tmp_path / 'log.db'}")
    text, as_json = [await asyncio.to_thread(ended, *asked, *form) for form in ((), ("--json",))]
    assert (text.returncode, as_json.returncode, text.stderr, as_json.stderr) == (1, 1, "", "")
    assert text.stdout.startswith("Damage: orders/")
    assert "known to be in flight: 0 may be stuck, 0 differ. What depends on the damage is not known." in " ".join(
        text.stdout.split()
    )
    told = json.loads(as_json.stdout)
    assert (told["stranded"], [each.split("/")[0] for each in told["damaged"]]) == ([], ["orders"])
