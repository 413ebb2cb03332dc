"""`eventlib run --shadow-first`: two versions of an application on one log, in processes of their own."""

import asyncio
import json
import os
import signal
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from eventlib import RetryableError, open_log
from eventlib.ground.tasks import cancelled
from eventlib.replay import replay
from tests import forked
from tests.commands import ended
from tests.integration import shadowed_app
from tests.integration.waiting_processes import EVENTLIB, PATIENCE_S, Process

SOURCE = Path(shadowed_app.__file__).read_text(encoding="utf-8")
REFACTORED = ("    if placed.cents == 13:\n", "    if placed.cents in {13}:\n")
DEARER = (
    "ChargeAsked(order_id=placed.order_id, cents=order.cents)",
    "ChargeAsked(order_id=placed.order_id, cents=order.cents + 1)",
)
COUNTS_TWICE = ("placed=order.placed + 1", "placed=order.placed + 2")
RENAMED = (
    "    order_id: str\n    cents: int\n\n\nclass ChargeAsked",
    "    order_id: str\n    pence: int\n\n\nclass ChargeAsked",
)
DECLARED = """[[difference]]
handler = "orders/order.place"
input = "Placed"
kind = "other"
reason = "it is dearer now"
events = ["~ChargeAsked"]
"""


class Fleet:
    """The processes of both versions, with the ledger of their effects."""

    def __init__(self, url: str, directory: Path) -> None:
        self.url = url
        self.directory = directory
        self.ledger = directory / "ledger"
        self.started = list[Process]()

    def start(self, name: str, *options: str, change: tuple[str, str] = ("", ""), declared: str = "") -> Process:
        """Start `eventlib run` with the application's code, or changed code."""
        assert change[0] in SOURCE
        place = self.directory / name
        place.mkdir(exist_ok=True)
        (place / "shadowed.py").write_text(SOURCE.replace(*change) if change[0] else SOURCE)
        (place / "pyproject.toml").write_text('[tool.eventlib]\napp = "shadowed:app"\n')
        (place / "expected-differences.toml").write_text(declared)
        environment = {**os.environ, "CHARGES": str(self.ledger), "EVENTLIB_STATE_DIR": str(place / "state")}
        diary, number = self.directory / f"{name}.stderr", len(self.started)
        with diary.open("w") as stderr, self.report(name).open("w") as stdout:
            command = [*EVENTLIB, "run", "--log", self.url, *options]
            process = forked.Popen(command, env=environment, cwd=place, stderr=stderr, stdout=stdout)
        self.started.append(Process(process, diary))
        return self.started[number]

    def report(self, name: str) -> Path:
        return self.directory / f"{name}.stdout"

    def charges(self) -> Counter[int]:
        """How many effects each process has run."""
        lines = self.ledger.read_text().splitlines() if self.ledger.exists() else []
        return Counter(int(line.partition(" ")[0]) for line in lines)

    @asynccontextmanager
    async def traffic(self) -> AsyncIterator[Callable[[], int]]:
        """Place orders all the time, and some twice; yield how many there were."""
        count = 0

        async def place() -> None:
            nonlocal count
            async with open_log(self.url, shadowed_app.app) as log:
                while True:
                    with suppress(RetryableError):
                        await log.publish(shadowed_app.Placed(order_id=str(count % 50), cents=count))
                    count += 1
                    await asyncio.sleep(0.02)

        placing = asyncio.create_task(place())
        try:
            yield lambda: count
        finally:
            await cancelled(placing)

    async def owners(self) -> set[str]:
        async with open_log(self.url, shadowed_app.app, read_only=True) as log:
            return {*(await log.port.owners("orders") or {}).values()}


@pytest.fixture(params=["file", pytest.param("kafka", marks=pytest.mark.extended)])
async def fleet(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Fleet]:
    url = request.getfixturevalue("kafka_url") if request.param == "kafka" else f"sqlite:///{tmp_path}/log.db"
    made = Fleet(url, tmp_path)
    yield made
    await asyncio.gather(*(each.end() for each in made.started))


async def until(met: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not met():
            await asyncio.sleep(0.05)


async def code_of(process: Process) -> int:
    """Wait until a process has ended by itself."""
    return await asyncio.to_thread(process.process.wait, PATIENCE_S)


def report_in(fleet: Fleet, name: str) -> dict[str, Any]:
    (line,) = fleet.report(name).read_text().splitlines()
    found: dict[str, Any] = json.loads(line)
    return found


async def test_code_that_decides_the_same_takes_over_when_the_old_one_stops(fleet: Fleet) -> None:
    old = fleet.start("old")
    async with fleet.traffic():
        await until(lambda: sum(fleet.charges().values()) > 5)
        new = fleet.start("new", "--shadow-first", "4s", "--json", change=REFACTORED)
        await new.says("Deciding beside orders")
        owners = await fleet.owners()
        assert f":{new.process.pid}" not in "".join(owners)
        await new.says("Running orders")
        assert fleet.charges().keys() == {old.process.pid}, "the shadow has run an effect"
        assert await old.ended(signal.SIGTERM) == 0
        await until(lambda: fleet.charges()[new.process.pid] > 5)
    found = report_in(fleet, "new")
    assert (found["holds"], found["objections"], found["groups"]) == (True, [], [])
    assert found["decisions"] > 10
    assert "orders/order.remind on remind_at" not in found["unexercised"]
    assert await new.ended(signal.SIGTERM) == 0


async def test_code_that_decides_otherwise_ends_with_a_report_and_the_old_one_is_left_alone(fleet: Fleet) -> None:
    old = fleet.start("old")
    async with fleet.traffic():
        await until(lambda: sum(fleet.charges().values()) > 5)
        before = await fleet.owners()
        new = fleet.start("new", "--shadow-first", "3s", "--json", change=DEARER)
        await new.says("Differs, first for ")
        assert await code_of(new) == 3
        assert await fleet.owners() == before
        seen = fleet.charges()[old.process.pid]
        await until(lambda: fleet.charges()[old.process.pid] > seen + 5)
    found = report_in(fleet, "new")
    (group,) = found["groups"]
    assert (group["handler"], group["input"], group["kind"]) == ("orders/order.place", "Placed", "other")
    assert (found["holds"], found["objections"]) == (False, ["1 kind of difference not declared"])
    assert "Running" not in new.said
    assert await old.ended(signal.SIGTERM) == 0


async def test_a_difference_that_is_declared_is_counted_and_the_code_takes_over(fleet: Fleet) -> None:
    fleet.start("old")
    async with fleet.traffic():
        await until(lambda: sum(fleet.charges().values()) > 5)
        new = fleet.start("new", "--shadow-first", "3s", change=DEARER, declared=DECLARED)
        await new.says("(expected: it is dearer now)")
        await new.says("Running orders")
    report = fleet.report("new").read_text()
    assert report.startswith("This code takes over: ")
    assert "expected: it is dearer now" in report


TAKEN_OVER = "Running orders"


@pytest.mark.parametrize(
    "step",
    [
        "Deciding beside orders",
        pytest.param("Differs, first for ", marks=pytest.mark.extended),
        pytest.param(TAKEN_OVER, marks=pytest.mark.extended),
    ],
)
async def test_a_process_that_is_killed_leaves_nothing_behind(fleet: Fleet, step: str) -> None:
    old = fleet.start("old")
    async with fleet.traffic():
        await until(lambda: sum(fleet.charges().values()) > 5)
        owners = await fleet.owners()
        declared = DECLARED if step == TAKEN_OVER else ""
        killed = fleet.start("killed", "--shadow-first", "4s", change=DEARER, declared=declared)
        await killed.says(step)
        assert await killed.ended(signal.SIGKILL) == -signal.SIGKILL
        assert step == TAKEN_OVER or await fleet.owners() == owners
        seen = fleet.charges()[old.process.pid]
        await until(lambda: fleet.charges()[old.process.pid] > seen + 5)
        new = fleet.start("new", "--shadow-first", "2s", change=DEARER, declared=DECLARED)
        await new.says("Running orders")
    own = {old.process.pid, new.process.pid} | ({killed.process.pid} if step == TAKEN_OVER else set())
    assert fleet.charges().keys() <= own
    async with open_log(fleet.url, shadowed_app.app, read_only=True) as log:
        report = await replay(log)
    assert report.unknown == report.damaged == ()


async def test_while_the_old_process_is_gone_nothing_takes_over(fleet: Fleet) -> None:
    old = fleet.start("old")
    async with fleet.traffic():
        await until(lambda: sum(fleet.charges().values()) > 5)
        new = fleet.start("new", "--shadow-first", "6s", change=REFACTORED)
        await new.says("Deciding beside orders")
        seen = sum(fleet.charges().values())
        await until(lambda: sum(fleet.charges().values()) > seen + 5)
        await old.ended(signal.SIGKILL)
        await new.says("the span does not count now: ")
        assert "Running orders" not in new.said
        again = fleet.start("again")
        await new.says("Running orders")
    assert fleet.charges().keys() <= {old.process.pid, again.process.pid, new.process.pid}
    assert "nothing differs" in fleet.report("new").read_text()


async def test_a_state_that_follows_otherwise_is_a_difference(fleet: Fleet) -> None:
    fleet.start("old")
    async with fleet.traffic():
        await until(lambda: sum(fleet.charges().values()) > 5)
        new = fleet.start("new", "--shadow-first", "2s", "--json", change=COUNTS_TWICE)
        assert await code_of(new) == 3
    (group,) = report_in(fleet, "new")["groups"]
    assert (group["handler"], group["input"], group["kind"]) == ("orders/order.evolve", "Order", "state")
    assert group["delta"] == ["~Order"]


async def test_a_broken_contract_ends_it_at_once(fleet: Fleet) -> None:
    fleet.start("old")
    async with fleet.traffic():
        await until(lambda: sum(fleet.charges().values()) > 5)
        new = fleet.start("new", "--shadow-first", "1h", "--json", change=RENAMED)
        assert await code_of(new) == 3
    found = report_in(fleet, "new")
    assert found["objections"] == ["2 problems with contracts"]
    assert found["contracts"][0]["name"] == "Placed"


async def test_code_that_decides_here_already_has_nothing_to_prove(fleet: Fleet) -> None:
    first = fleet.start("first", "--shadow-first", "1h")
    await first.says("Nothing to prove")
    await first.says("Running orders")
    async with fleet.traffic():
        await until(lambda: sum(fleet.charges().values()) > 5)
        second = fleet.start("second", "--shadow-first", "1h")
        await second.says("this code decides here already")
        await second.says("Running orders")


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (("--shadow-first", "10"), "'10' is not a span of time: write 90s, 10m or 1h"),
        (("--accept", "why"), "it needs --shadow-first"),
        (("--shadow-first", "1m", "--log", "memory://"), "--shadow-first proves services that run in another process"),
    ],
)
def test_what_does_not_fit_is_refused(options: tuple[str, ...], sentence: str) -> None:
    done = ended("run", "--app", "tests.integration.shadowed_app:app", *options)
    assert done.returncode in {1, 2}
    assert sentence in done.stderr
