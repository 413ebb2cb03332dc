"""Whichever record of a log is damaged: what does not depend on it is proved, and what does is never called wrong or stuck."""

import asyncio
import json
import re
from functools import cache
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from eventlib import open_log
from eventlib.proof import damage
from eventlib.proof.proving import InFlight, InFlightProof, ProofBounds
from eventlib.replay import PreflightReport, gate
from eventlib.simulation.stage import Stage
from services import shop
from services.order.decider import orders
from services.order.events import CancelSubmitted
from services.simulation.scenario import ShopScenario
from tests.commands import ended
from tests.integration.damaging import BEYOND_PROOF, change, hurt, topics_in
from tests.integration.shop_log import order, served, supplied

NOT_READ = re.compile(r"\.(journal|latest)$")
KEYS = ("a", "b", "c", "d")


@cache
def stage() -> Stage:
    return Stage(shop)


async def proved(path: Path) -> InFlightProof:
    async with open_log(f"sqlite:///{path}", shop, read_only=True) as log:
        found = await InFlight.read(log, stage())
    return await asyncio.to_thread(found.prove, ShopScenario, ProofBounds(sagas=None))


async def proved_damaged(directory: Path, position: int) -> InFlightProof:
    with hurt(directory, position) as file:
        return await proved(file)


async def late(directory: Path) -> dict[int, str]:
    """Fill a log with orders whose customers want to cancel them when they have ended; return its records' topics."""
    async with open_log(f"sqlite:///{directory / 'log.db'}", shop) as log:
        await supplied(log)
        await log.publish_many([order(key) for key in KEYS])
        await served(log)
        await log.publish_many([CancelSubmitted(order_id=key) for key in KEYS])
    return topics_in(directory)


def lawful(found: InFlightProof) -> set[str]:
    return {each.key for each in found.explored if not each.why}


async def test_what_does_not_depend_on_damage_is_proved_and_all_is_never_said_to_be(tmp_path: Path) -> None:
    topics = await late(tmp_path)
    whole = await proved(tmp_path / "log.db")
    assert whole.holds
    assert lawful(whole) == {*KEYS}
    proofs, changelogs = list[int](), 0
    for position, topic in topics.items():
        if NOT_READ.search(topic) or topic == "_schemas":
            continue
        if topic.endswith(".changelog"):
            changelogs += 1
            if changelogs % 4:
                continue  # a run takes a while, and many of these records are of one kind
        found = await proved_damaged(tmp_path, position)
        assert [each.split("/")[0] for each in found.damaged] == [topic]
        assert not found.holds
        assert not found.unlawful, (topic, position)
        proofs.append(len(lawful(found)))
    assert len(proofs) > 60
    assert {0, 2, 3} < {*proofs}


async def test_what_a_lost_schema_has_written_is_not_known(tmp_path: Path) -> None:
    schemas = [position for position, topic in (await late(tmp_path)).items() if topic == "_schemas"]
    lost = 0
    for position in schemas[::3]:
        found = await proved_damaged(tmp_path, position)
        assert not found.unlawful, position
        assert found.holds is not bool(found.damaged)
        assert found.holds or found.damaged[0].startswith("_schemas/0/")
        lost += bool(found.open)
    assert lost > 3


@pytest.mark.parametrize("apart_ms", [0, 3_600_000])
async def test_a_saga_that_began_later_than_damage_does_not_depend_on_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, apart_ms: int
) -> None:
    monkeypatch.setattr(damage, "_APART_MS", apart_ms)
    requests = next(topic for topic in shop.topics if topic.name == "order.requests")
    home = requests.partition_of(b"late")
    early = [key for key in map(str, range(40)) if requests.partition_of(key.encode()) == home][:2]
    async with open_log(f"sqlite:///{tmp_path / 'log.db'}", shop) as log:
        await supplied(log)
        for key in (*early, "late"):
            await log.publish(order(key).event)
            await served(log)
            await asyncio.sleep(0.01)
        await log.publish_many([CancelSubmitted(order_id=key) for key in (*early, "late")])
    topics = topics_in(tmp_path)
    first = next(position for position, topic in topics.items() if topic == "orders" and topics.get(position + 2))
    found = await proved_damaged(tmp_path, first)
    assert lawful(found) == (set() if apart_ms else {"late"} | {*early[1:]})


async def test_it_is_said_in_every_form(tmp_path: Path) -> None:
    topics = await late(tmp_path)
    change(tmp_path / "log.db", BEYOND_PROOF, next(at for at, topic in topics.items() if topic == "orders"))
    asked = ("prove", "in-flight", "--workers", "1", "--log", f"sqlite:///{tmp_path / 'log.db'}")
    text, markdown, junit, as_json = [
        await asyncio.to_thread(ended, *asked, "--format", form) for form in ("text", "markdown", "junit", "json")
    ]
    assert {each.returncode for each in (text, markdown, junit, as_json)} == {1}
    headline, *rest = text.stdout.splitlines()
    assert headline.endswith("1 damaged place on the log, so what else is in flight is not known.")
    assert any(line.startswith("? orders/") and " is damaged: " in line for line in rest)
    assert "end lawfully" not in text.stdout
    assert markdown.stdout.startswith("## In flight: Not proved\n")
    assert "\n- ? orders/" in markdown.stdout
    (suite,) = ET.fromstring(junit.stdout)  # noqa: S314  our own
    assert suite.get("failures") == "0"
    assert [each.get("name", "").split("/")[0] for each in suite.iter("testcase")][-1] == "orders"
    assert suite.findall("testcase/error")[-1].get("message", "").startswith("orders/")
    told = json.loads(as_json.stdout)
    assert (told["holds"], told["unlawful"], [each.split("/")[0] for each in told["damaged"]]) == (
        False,
        [],
        ["orders"],
    )


ENDED = ("a", "b")
CHANGELOGS = 6
"""Of how many records of a changelog one is damaged: many of them are of one kind."""


async def checked(path: Path) -> PreflightReport:
    async with open_log(f"sqlite:///{path}", shop, read_only=True) as log:
        return await gate(log)


async def checked_damaged(directory: Path, position: int) -> PreflightReport:
    with hurt(directory, position) as file:
        return await checked(file)


async def filled_with_ended(directory: Path) -> dict[int, str]:
    """Fill a log with two ended orders and one whose charge is parked; return its records' topics by their positions."""
    async with open_log(f"sqlite:///{directory / 'log.db'}", shop) as log:
        await supplied(log)
        await log.publish_many([order(key) for key in (*ENDED, "broken")])
        await served(log)
    return topics_in(directory)


async def test_damage_is_named_and_nothing_is_stuck_that_depends_on_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    topics = await filled_with_ended(tmp_path)
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


async def test_what_a_lost_schema_has_written_is_not_called_stuck(tmp_path: Path) -> None:
    schemas = [position for position, topic in (await filled_with_ended(tmp_path)).items() if topic == "_schemas"]
    lost = 0
    for position in schemas[::3]:
        found = await checked_damaged(tmp_path, position)
        assert (found.standing.stranded, found.standing.unreadable, found.report.differences) == ((), (), 0)
        assert found.is_open is not bool(found.damaged)
        lost += bool(found.standing.damaged)
    assert lost > 1


async def test_a_damaged_journal_leaves_unknown_whether_the_code_can_take_over(tmp_path: Path) -> None:
    topics = await filled_with_ended(tmp_path)
    found = await checked_damaged(tmp_path, [at for at, topic in topics.items() if topic == "payment.journal"][-1])
    assert [each.split("/")[0] for each in found.damaged] == ["payment.journal"]
    assert found.standing.damaged == ()
    assert not found.is_open


async def test_the_command_says_that_it_is_not_known(tmp_path: Path) -> None:
    topics = await filled_with_ended(tmp_path)
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
