"""A task whose time a wrong clock has set ahead is brought back by an operator, and every reader orders what it did."""

import re
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import httpx
import pytest

from eventlib import EventLog, Publication, open_log
from eventlib.console.app import create_console
from eventlib.console.sessions import SessionIdentity
from eventlib.errors import ContractError
from eventlib.identity.options import IdentityOptions
from eventlib.index.log_index import LogIndex
from eventlib.operations.acts import ActIndex, acts
from eventlib.operations.clock_reset import preview_clock_reset, reset_clocks
from eventlib.operations.doctor.content import examine_task_times
from eventlib.operations.seek import act
from eventlib.queries.state import newest_of_key
from eventlib.queries.task_clock import clocks_of, positions_of
from eventlib.queries.task_metadata import TaskNotes
from eventlib.replay import replay
from eventlib.replay.key_history import key_history
from eventlib.runtime.records import POSITION_KEY, JournalEntry, Step, TaskClock
from eventlib.runtime.task import Task
from eventlib.runtime.transaction import Inputs, SeekOffset
from eventlib.values import now_ms
from tests.apps.small_shop import Ordered, Outside, make_shop, settle
from tests.commands import said
from tests.integration.pausing import HOUR_S, kinds, ordered
from tests.integration.reopening import everything
from tests.integration.rerunning import run_it_again
from tests.integration.small_shop_app import app

YEAR_MS = 365 * 24 * HOUR_S * 1_000
KEEPS = {"kept"}  # its card is refused, so that its order goes on waiting


@pytest.fixture(params=["memory", "sqlite"])
async def log(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[EventLog]:
    url = "memory://" if request.param == "memory" else f"sqlite:///{tmp_path / 'log.db'}"
    async with open_log(url, make_shop(set())) as opened:
        await settle(opened)
        yield opened


async def infected(log: EventLog, monkeypatch: pytest.MonkeyPatch) -> int:
    """Let a release without a bound take up an order by a clock that is years ahead, and others behind it."""
    order = Publication(Ordered(order_id="kept", cents=9, patience_s=1.0))
    (record,) = log.records_of(order, now_ms() + 10 * YEAR_MS)
    with monkeypatch.context() as older:
        older.setattr("eventlib.runtime.restore.Task", unbounded)
        await log.port.append([record])
        await settle(log, Outside(refuses=KEEPS))
        partition = record.partition
        for key in keys_of(log, partition, 3):
            await ordered(log, key, 5)
        await settle(log, Outside(refuses=KEEPS))
    return partition


def unbounded(*arguments: object, **options: object) -> Task:
    options.pop("ahead_ms")
    return Task(*arguments, **options)  # type: ignore[arg-type]


def keys_of(log: EventLog, partition: int, count: int, prefix: str = "k") -> list[str]:
    """Return keys of one partition."""
    topic = log.choreography.services[0].inputs[0]
    found = (f"{prefix}{n}" for n in range(10_000) if topic.partition_of(f"{prefix}{n}".encode()) == partition)
    return [next(found) for _ in range(count)]


async def reset(log: EventLog, partition: int | None = None) -> list[Step]:
    service = log.choreography.services[0]
    preview = await preview_clock_reset(log, service, partition)
    await reset_clocks(log, service, preview.plans, "os:ada: a server's clock was ahead")
    entries = [log.codec.decode(JournalEntry, each.value or b"") for each in await everything(log, "orders.journal")]
    return [step for entry in entries for step in entry.steps if step.kind == "clock"]


async def test_an_infected_task_is_brought_back_and_its_new_deadlines_pass(
    log: EventLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    partition, service = await infected(log, monkeypatch), log.choreography.services[0]
    preview = await preview_clock_reset(log, service)
    (plan,) = preview.plans
    assert (plan.service, plan.partition, preview.infected) == ("orders", partition, [])
    assert plan.first_ms > now_ms() + 9 * YEAR_MS
    assert plan.transactions > 1
    assert preview.token == (await preview_clock_reset(log, service, partition)).token
    notes = TaskNotes(log)
    await notes.refresh()
    (found,) = await examine_task_times(notes)
    assert "`eventlib reset-clock orders" in found.remedy
    (step,) = await reset(log)
    assert (step.first, step.last, step.detail) == (plan.first_ms, plan.last_ms, "os:ada: a server's clock was ahead")
    assert (await positions_of(log, service, partition)).at_ms <= now_ms()
    (key,) = keys_of(log, partition, 1, "later")
    await ordered(log, key, 1)
    await log.publish(Ordered(order_id=key, cents=1, patience_s=0.001))
    while "Expired" not in await kinds(log):
        await settle(log, Outside(refuses={key}))
    assert (await positions_of(log, service, partition)).at_ms <= now_ms()
    with pytest.raises(ContractError, match="is not ahead of this machine's clock"):
        await preview_clock_reset(log, service)


async def test_deadlines_of_the_wrong_time_are_named_with_when_they_fall_due(
    log: EventLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    await infected(log, monkeypatch)
    (plan,) = (await preview_clock_reset(log, log.choreography.services[0])).plans
    assert [(each.decider, each.key, each.name) for each in plan.late] == [("order", "kept", "expires_at")]
    assert plan.late[0].due_ms >= plan.first_ms


async def test_every_reader_orders_what_was_done_before_the_reset_before_what_came_after(
    log: EventLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    partition = await infected(log, monkeypatch)
    before = now_ms()
    await reset(log)
    (key,) = keys_of(log, partition, 1)
    await ordered(log, key, 2)
    report = await settle(log, Outside(refuses=KEEPS))
    assert report.decisions
    assert (await replay(log)).same
    (decider,) = log.choreography.services[0].deciders
    history = await key_history(log, decider, key)
    assert not history.doubt
    order = [history.clock.time(int(step.at.timestamp() * 1_000)) for step in history.steps]
    assert order == sorted(order)
    assert history.steps[0].at > history.steps[-1].at + timedelta(days=365)
    assert history.clock.order_ms(int(history.steps[0].at.timestamp() * 1_000)) >= before - 1
    differs = await run_it_again(log, "orders")
    assert differs.is_none, differs


async def test_positions_that_cannot_be_read_stop_no_reader(log: EventLog, monkeypatch: pytest.MonkeyPatch) -> None:
    partition = await infected(log, monkeypatch)
    await reset(log, partition)
    await settle(log)
    service = log.choreography.services[0]
    before = await clocks_of(log, [(service, partition)])
    newest = await newest_of_key(log, service.changelog.name, partition, POSITION_KEY)
    assert newest is not None
    await log.port.append([newest.replace(value=(newest.value or b"")[:7])])
    assert await clocks_of(log, [(service, partition)]) == before != {}


async def test_a_task_uses_no_time_twice_that_was_taken_back(log: EventLog, monkeypatch: pytest.MonkeyPatch) -> None:
    partition = await infected(log, monkeypatch)
    (step,) = await reset(log)
    positions = await positions_of(log, log.choreography.services[0], partition)
    clock = positions.clock
    assert TaskClock.of(clock.facts) == clock
    assert clock.unused(step.first) == clock.unused(step.last) == step.last + 1
    assert clock.unused(step.first - 1) == step.first - 1
    assert clock.time(step.last) < clock.time(positions.at_ms) < clock.time(step.last + 1)


async def act_on_purpose(log: EventLog, partition: int, why: str) -> None:
    """Seek where a task is anyway: an act that its journal has."""
    service = log.choreography.services[0]

    async def decide(task: Task) -> Inputs:
        topic = service.inputs[0].name
        return Inputs(now_ms(), acts=[SeekOffset(topic, task.positions.next[topic], why)])

    await act(log, service, partition, decide)


async def test_what_an_infected_task_did_on_purpose_is_listed_before_what_came_after_its_reset(
    log: EventLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    partition = await infected(log, monkeypatch)
    await act_on_purpose(log, partition, "os:eve: before")
    async with LogIndex(log) as grown:
        index = ActIndex(log, grown)
        assert await grown.caught_up(30)
        assert (await index.page(0, "", "", 9)).lines[0].act.at_ms > now_ms() + 9 * YEAR_MS
        (step,) = await reset(log)
        await act_on_purpose(log, partition, "os:eve: after")
        assert await grown.caught_up(30)
        in_order, newest = await acts(log), [each.act for each in (await index.page(0, "", "", 9)).lines]
    assert [each.reason for each in in_order] == ["before", step.detail.removeprefix("os:ada: "), "after"]
    assert in_order[-1].at_ms <= now_ms()
    assert newest == in_order[::-1]
    assert await acts(log, in_order[1].at_ms) == in_order[1:]


NAMED = "tests.integration.small_shop_app:app"


async def test_the_console_resets_a_clock_as_it_was_previewed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    url = f"sqlite:///{tmp_path}/log.db"
    async with open_log(url, app) as log:
        await settle(log)
        partition = await infected(log, monkeypatch)
    assert "stays due at" in said("reset-clock", "orders", "--app", NAMED, "--log", url, "--dry-run")
    async with open_log(url, app) as log:
        token = (await preview_clock_reset(log, log.choreography.services[0])).token
        console = create_console(log, SessionIdentity(IdentityOptions()), state_dir=str(tmp_path))
        async with (
            console.router.lifespan_context(console),
            httpx.AsyncClient(transport=httpx.ASGITransport(console), base_url="http://127.0.0.1") as browser,
        ):
            page = (await browser.get("/reset-clock", params={"service": "orders"})).text
            assert token in page
            assert "expires_at stays due at" in page
            for key in keys_of(log, partition, 1, "more"):  # the log moves on
                await ordered(log, key, 1)
            await settle(log)
            (form_token,) = re.findall(r'name="form_token" value="(\w+)"', page)
            fields = {"service": "orders", "form_token": form_token, "reason": "a server's clock was ahead"}
            assert "moved on" in (await browser.post("/reset-clock", data=fields | {"as_previewed": token})).text
            assert "1 task goes on now" in (await browser.post("/reset-clock", data=fields)).text
            (act,) = await acts(log)
            assert (act.what, act.service, act.reason) == ("clock", "orders", fields["reason"])
            again = await browser.get("/reset-clock", params={"service": "orders"})
            assert "is not ahead of this machine" in again.text
