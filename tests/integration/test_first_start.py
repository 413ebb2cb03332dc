"""A service's first start on a log with a past: its effects wait for a person, and each view says so."""

import asyncio
import random
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from eventlib import EventLog, Publication, Runtime, open_log
from eventlib.cli import run
from eventlib.operations.complaints import Limits, complaints
from eventlib.operations.status import StatusReader
from eventlib.queries.parked import Parking, parkings
from eventlib.replay.key_history import key_history
from eventlib.runtime.bootstrap import MARK
from eventlib.runtime.records import POSITION_KEY, JournalEntry, Positions
from eventlib.search import SagaQuery, SagaSearch
from tests import forked
from tests.handling import handle_all
from tests.integration import mailing as service_module
from tests.integration.mailing import Outbox, Signed, both, mailing, older
from tests.integration.past_app import APP, Left, fill, served
from tests.integration.reopening import Opened, everything
from tests.operators import request_retry

ROOT = Path(__file__).parents[2]


@pytest.fixture
def outbox(tmp_path: Path) -> Path:
    return tmp_path / "outbox"


@pytest.fixture
async def ran(opened: Opened) -> Opened:
    """Opens a log on which another application's service has run before."""
    async with opened(older()) as log:
        await handle_all(log)
    return opened


def sent(outbox: Path, about: str = "welcome") -> set[str]:
    lines = outbox.read_text().splitlines() if outbox.exists() else []
    return {name for kind, name, _ in map(str.split, lines) if kind == about}


def names(numbers: range) -> set[str]:
    return {f"n{number}" for number in numbers}


async def sign(log: EventLog, numbers: range, **fields: int) -> None:
    await log.publish_many([Publication(Signed(name=f"n{number}", **fields)) for number in numbers])


async def settle(log: EventLog, outbox: Path) -> None:
    await handle_all(log, ports={"outbox": Outbox(outbox)})


async def effects_parked(log: EventLog) -> list[Parking]:
    return [parking for parking in await parkings(log) if parking.effect]


async def test_effects_of_the_past_wait_for_a_person_and_new_ones_run(ran: Opened, outbox: Path) -> None:
    async with ran(mailing()) as log:
        await sign(log, range(30))
        await settle(log, outbox)
        assert sent(outbox) == set()
        parked = await effects_parked(log)
        assert {parking.key for parking in parked} == names(range(30))
        assert {parking.effect for parking in parked} == {"MailRequested"}
        assert "before the first start of service mail" in parked[0].reason
        assert 'effects="all"' in parked[0].reason
    async with ran(mailing()) as log:
        await sign(log, range(30, 40))
        await settle(log, outbox)
        assert sent(outbox) == names(range(30, 40))
        await request_retry(log, next(parking for parking in parked if parking.key == "n7"), by="test")
        await settle(log, outbox)
        assert sent(outbox) == names(range(30, 40)) | {"n7"}
        assert len(await effects_parked(log)) == 29
        assert len([r for r in await everything(log, "mails") if r.type == "MailSent"]) == 11


async def test_all_effects_run_where_the_service_says_so(ran: Opened, outbox: Path) -> None:
    async with ran(mailing("all")) as log:
        await sign(log, range(20))
        await settle(log, outbox)
        await sign(log, range(20, 30))
        await settle(log, outbox)
        assert sent(outbox) == names(range(30))
        assert await effects_parked(log) == []
        assert not any(record.headers for record in await everything(log, "welcomes"))


async def test_what_follows_from_the_past_is_marked_and_what_is_new_is_not(ran: Opened, outbox: Path) -> None:
    async with ran(mailing()) as log:
        await sign(log, range(5))
        await settle(log, outbox)
        await sign(log, range(5, 9))
        await settle(log, outbox)
        for topic in ("welcomes", "mails"):
            records = [r for r in await everything(log, topic) if r.type != "MailSent"]
            assert Counter(r.headers for r in records) == {((MARK, b"mail"),): 5, (): 4}


async def test_an_input_of_the_past_that_was_parked_stays_past(ran: Opened, outbox: Path) -> None:
    broken = {"n1"}
    async with ran(mailing(broken=broken)) as log:
        await sign(log, range(3))
        await settle(log, outbox)
        broken.clear()
        (parking,) = [parking for parking in await parkings(log) if not parking.effect]
        await sign(log, range(3, 6))
        await request_retry(log, parking, by="test")
        await settle(log, outbox)
        assert sent(outbox) == names(range(3, 6))
        assert {parking.key for parking in await effects_parked(log)} == names(range(3))


async def test_a_deadline_of_the_past_is_past_and_a_later_one_is_new(ran: Opened, outbox: Path) -> None:
    async with ran(mailing()) as log:
        await sign(log, range(3), remind_s=0)
        await sign(log, range(3, 6), remind_s=3)
        await asyncio.sleep(0.05)
        async with Runtime(log, ports={"outbox": Outbox(outbox)}), asyncio.timeout(120):
            while len(sent(outbox, "reminder")) < 3:
                await asyncio.sleep(0.05)
        await settle(log, outbox)
        assert sent(outbox, "reminder") == names(range(3, 6))
        assert sent(outbox) == set()
        assert len(await effects_parked(log)) == 6 + 3


async def test_from_the_latest_on_it_misses_nothing_that_comes_while_it_is_away(ran: Opened, outbox: Path) -> None:
    async with ran(mailing(start_from="latest")) as log:
        await sign(log, range(10))
        await settle(log, outbox)
        assert await everything(log, "welcomes") == []
        await sign(log, range(10, 20))
    async with ran(mailing(start_from="latest")) as log:
        await settle(log, outbox)
        assert {(r.key or b"").decode() for r in await everything(log, "welcomes")} == names(range(10, 20))
        assert sent(outbox) == names(range(10, 20))
        assert await effects_parked(log) == []


async def test_where_it_began_is_on_the_journal_before_anything_else(ran: Opened, outbox: Path) -> None:
    async with ran(mailing()) as log:
        await sign(log, range(30))
        await settle(log, outbox)
        for partition in range(8):
            journal = await log.port.read("mail.journal", partition, 0, 1_000)
            entries = [log.codec.decode(JournalEntry, record.value or b"") for record in journal]
            began = {step.topic: step for step in entries[0].steps}
            assert {step.kind for step in entries[0].steps} == {"begin"}
            assert began.keys() == {"signups", "welcomes", "mails", "mail.control"}
            here = [record for record in await everything(log, "signups") if record.partition == partition]
            assert began["signups"].last - began["signups"].first == len(here)
            assert not any(step.kind == "begin" for entry in entries[1:] for step in entry.steps)
        kept = [r for r in await everything(log, "mail.changelog") if r.key == POSITION_KEY.encode()]
        newest = {record.partition: log.codec.decode(Positions, record.value or b"") for record in kept}
        assert all(positions.past == {} and positions.first_ms > 0 for positions in newest.values())


async def test_the_first_services_of_a_log_have_no_past(opened: Opened, outbox: Path) -> None:
    """What was published while they started, or before, is what they are there for; its deadlines as well."""
    async with opened(mailing()) as log:
        await sign(log, range(30), remind_s=0)
        await settle(log, outbox)
        async with Runtime(log, ports={"outbox": Outbox(outbox)}), asyncio.timeout(120):
            while len(sent(outbox, "reminder")) < 30:
                await asyncio.sleep(0.01)
        assert sent(outbox) == names(range(30))
        assert await effects_parked(log) == []
        steps = (await key_history(log, log.choreography.deciders[0], "n3")).steps
        (due,) = (step for step in steps if step.deadline)
        assert (due.deadline, [each.record.headers for each in due.emitted]) == ("remind_at", [()])


async def test_a_first_service_that_starts_later_than_the_others_has_no_past(opened: Opened, outbox: Path) -> None:
    async with opened(both()) as log:
        await handle_all(log, services=["older"])
        await sign(log, range(8))
    async with opened(both()) as log:
        await settle(log, outbox)
        assert sent(outbox) == names(range(8))


async def test_positions_of_an_earlier_version_are_read_as_they_were_meant() -> None:
    @dataclass(frozen=True)
    class Old:
        next: dict[str, int] = field(default_factory=dict)
        at_ms: int = 0

    Old.__name__ = "Positions"
    async with open_log("memory://", mailing()) as log:
        await log.codec.prepare([("mail.changelog", Old), ("mail.changelog", Positions)])
        written = log.codec.encode(Old({"signups": 7}, 5))
        assert log.codec.decode(Positions, written) == Positions({"signups": 7}, 5, first_ms=0, past={})


def start(url: str, outbox: Path, effects: str) -> "subprocess.Popen[str]":
    command = [sys.executable, str(service_module.__file__), url, str(outbox), effects, "earliest"]
    return forked.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)


def end(process: "subprocess.Popen[str]") -> None:
    process.kill()
    process.communicate()


@pytest.mark.parametrize("effects", ["new", pytest.param("all", marks=pytest.mark.extended)])
async def test_killed_at_any_moment_it_still_knows_what_was_past(tmp_path: Path, outbox: Path, effects: str) -> None:
    url = f"sqlite:///{tmp_path}/log.db"
    chance = random.Random(7)
    past, fresh = range(2_000), range(2_000, 2_050)
    async with open_log(url, older()) as log:
        await handle_all(log)
    async with open_log(url, mailing()) as log:
        await sign(log, past)
        for n, number in enumerate(fresh):
            if n % 10 == 0:
                process = start(url, outbox, effects)
                assert process.stdout is not None
                assert process.stdout.readline() == "runs\n"
                if n == 0:  # from here on is new: every task has begun
                    while len({record.partition for record in await everything(log, "mail.journal")}) < 8:
                        await asyncio.sleep(0.01)
                await asyncio.sleep(chance.uniform(0, 0.15))
            await sign(log, range(number, number + 1))
            if n % 10 == 9:
                end(process)
        process = start(url, outbox, effects)
        assert process.stdout is not None
        assert [process.stdout.readline() for _ in range(2)] == ["runs\n", "idle\n"]
        end(process)
        waiting = {parking.key for parking in await effects_parked(log)}
        ids = [record.id for record in await everything(log, "mails")]
    assert len(ids) == len(set(ids))
    if effects == "all":
        assert (waiting, sent(outbox)) == (set(), names(range(2_050)))
    else:
        assert (waiting, sent(outbox)) == (names(past), names(fresh))


WHY = "it follows from what was recorded before the first start of service host"
STOPPED = Limits(may_stop=True)


@pytest.fixture
def url(tmp_path: Path) -> str:
    url = f"sqlite:///{tmp_path}/log.db"
    asyncio.run(fill(url, "Ada L"))
    return url


async def _parked(url: str) -> tuple[Parking, list[str]]:
    async with open_log(url, APP, read_only=True) as log:
        (parking,) = await parkings(log)
        return parking, complaints(await StatusReader(log).read(), STOPPED)


def test_each_view_of_the_saga_says_so_until_it_has_run(
    url: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("EVENTLIB_STATE_DIR", str(tmp_path))
    where = ["--app", "tests.integration.past_app:APP", "--log", url]

    def said(*command: str) -> str:
        run([*command, *where])
        return " ".join(capsys.readouterr().out.split())

    views = [("saga", "Ada L"), ("saga", "Ada L", "--tree"), ("sagas", "list"), ("status", "--allow-stopped")]
    parking, complained = asyncio.run(_parked(url))
    assert complained == ["1 parked: `eventlib parked list`"]
    command = f"eventlib parked retry visit {parking.id}"
    for view in views:
        assert WHY in said(*view), view
        assert command in said(*view), view

    asyncio.run(served(url, Left(name="Ada L")))
    assert asyncio.run(_parked(url))[1] == [], "it holds nothing up any more"
    for view in views:
        assert command in said(*view), view
    assert run(["status", "--allow-stopped", *where]) == 0
    capsys.readouterr()

    asyncio.run(_retried(url, command, where))
    for view in views:
        assert WHY not in said(*view), view


async def _retried(url: str, command: str, where: list[str]) -> None:
    async with open_log(url, APP) as log, Runtime(log), asyncio.timeout(60):
        code = await asyncio.to_thread(run, [*command.split()[1:], "--wait", "30", *where])
        assert code == 0


async def test_a_search_finds_the_command_of_a_saga_that_has_ended(url: str, tmp_path: Path) -> None:
    await served(url, Left(name="Ada L"))
    async with (
        open_log(url, APP, read_only=True) as log,
        SagaSearch(log, path=tmp_path / "sagas.db") as search,
    ):
        assert await search.caught_up(10)
        (saga,) = (await search.page(SagaQuery("status = 'ended'"))).sagas
        (parking,) = await parkings(log)
        assert [(each["kind"], each["command"]) for each in saga["waits"]] == [("parked", parking.command)]
