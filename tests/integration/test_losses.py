"""Inputs that are gone before a task has read them: named in the journal, the positions and the log, and never passed over in silence."""

import logging
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Never

import pytest

from eventlib import Choreography, Decider, Event, EventLog, Runtime, RuntimeConfig, Service, Topic, open_log
from eventlib.errors import ContractError
from eventlib.log.base import OpenTransaction, TopicIdentity
from eventlib.model.record import Record
from eventlib.operations.complaints import Limits, complaints
from eventlib.operations.doctor.examination import examine_inputs
from eventlib.operations.doctor.finding import Diagnosis
from eventlib.operations.seek import accept_losses, act
from eventlib.operations.status import StatusReader
from eventlib.publication import Publication
from eventlib.queries.state import state_of
from eventlib.queries.task_clock import positions_of
from eventlib.queries.task_metadata import TaskNotes
from eventlib.replay import replay
from eventlib.runtime.records import LOG, POSITION_KEY, JournalEntry, Step
from eventlib.runtime.task import Task
from eventlib.runtime.transaction import Inputs, SeekOffset
from eventlib.values import now_ms
from tests.handling import handle_all
from tests.integration.reopening import everything
from tests.waiting import until

HEARD = Topic("heard", partitions=1, retention=timedelta(hours=1))
LONG_AGO_MS = 1_700_000_000_000
FAST = RuntimeConfig(compare_topics_s=0.02, drop_unread=True)


class Heard(Event, topic=HEARD, key="key"):
    key: str


@dataclass(frozen=True)
class Count:
    times: int = 0


hears: Decider[Count] = Decider("hears", state=Count, key="key")


@hears.on(Heard)
def note(_count: Count, _heard: Heard) -> list[Never]:
    return []


@hears.evolve
def evolve(count: Count, event: Event) -> Count:
    return replace(count, times=count.times + 1) if isinstance(event, Heard) else count


APP = Choreography("listening", [Service("hears", deciders=[hears])], facts=[])
HEARS = APP.service("hears")


@pytest.fixture(params=["memory", "sqlite"])
async def log(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[EventLog]:
    url = "memory://" if request.param == "memory" else f"sqlite:///{tmp_path / 'log.db'}"
    async with open_log(url, APP) as opened:
        yield opened


async def hear(log: EventLog, count: int, *, ago: bool = False) -> None:
    """Append events, also as if they had been published long ago."""
    records = [record for _ in range(count) for record in log.records_of(Publication(Heard(key="k")), 0)]
    at_ms = LONG_AGO_MS if ago else now_ms()
    await log.port.append([record.replace(timestamp_ms=at_ms) for record in records])


async def settle(log: EventLog) -> None:
    await handle_all(log, config=FAST)


async def lost(log: EventLog) -> list[Step]:
    entries = await everything(log, "hears.journal")
    steps = [step for entry in entries for step in log.codec.decode(JournalEntry, entry.value or b"").steps]
    return [step for step in steps if step.kind == "lose"]


async def times(log: EventLog) -> int:
    state = (await state_of(log, "hears", "k")).state
    assert isinstance(state, Count)
    return state.times


async def dropped(log: EventLog, handled: int, unread: int) -> None:
    """Let the service handle some inputs, and retention drop them, and others that it has not read."""
    await hear(log, handled, ago=True)
    await settle(log)
    await hear(log, unread, ago=True)
    await log.port.compact()


async def test_inputs_that_retention_has_dropped_unread_are_named(
    log: EventLog, caplog: pytest.LogCaptureFixture
) -> None:
    await dropped(log, 2, 5)
    await hear(log, 3)
    with caplog.at_level(logging.WARNING, "eventlib.runtime"):
        await settle(log)
    (step,) = await lost(log)
    assert (step.topic, step.first, step.last) == ("heard", 2, 7)
    assert step.detail == (
        "heard/0: retention, or an operator, has dropped offsets 2 to 6 before they were read; the task was at 2, and continues "
        "at 7"
    )
    assert [record.getMessage() for record in caplog.records] == [f"hears/0: {step.detail}"]
    assert (await positions_of(log, HEARS, 0)).lost == {"heard": step.detail}
    assert await times(log) == 2 + 3


async def test_inputs_that_are_dropped_while_nothing_else_comes_are_named(log: EventLog) -> None:
    await dropped(log, 2, 5)
    async with Runtime(log, config=FAST):
        await until(lambda: _is(lost(log), 1))
    await settle(log)
    assert len(await lost(log)) == 1
    assert (await positions_of(log, HEARS, 0)).next["heard"] == 7


async def _is(found: Awaitable[list[Step]], count: int) -> bool:
    return len(await found) == count


async def complaining(log: EventLog) -> list[str]:
    status = await StatusReader(log).read()
    return [each for each in complaints(status, Limits(may_stop=True)) if "lost inputs" in each]


async def test_the_status_is_unhealthy_until_the_loss_is_accepted(log: EventLog) -> None:
    await dropped(log, 2, 5)
    assert [each.partition(";")[0] for each in await complaining(log)] == [
        "hears has lost inputs: heard/0: retention, or an operator, has dropped offsets 2 to 6 before they were read"
    ]
    await settle(log)
    (complaint,) = await complaining(log)
    assert "`eventlib reset hears --accept-loss --reason WHY`" in complaint
    (accepted,) = await accept_losses(log, HEARS, "an operator: a test")
    assert accepted in complaint
    assert await complaining(log) == []
    assert await accept_losses(log, HEARS, "again") == []
    await hear(log, 1)
    await settle(log)
    assert await times(log) == 3


async def examined(url: str) -> list[Diagnosis]:
    async with open_log(url, APP, read_only=True) as log:
        notes = TaskNotes(log)
        await notes.refresh()
        return await examine_inputs(log, notes)


async def test_the_doctor_finds_what_is_gone(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'log.db'}"
    async with open_log(url, APP) as log:
        await hear(log, 1, ago=True)
        await settle(log)
        assert [each.verdict for each in await examined(url)] == ["ok"]
        await dropped(log, 2, 5)
        (before,) = await examined(url)
        assert (before.verdict, before.what.partition(":")[0]) == ("error", "hears has lost inputs")
        await settle(log)
        (after,) = await examined(url)
        assert (after.verdict, "--accept-loss" in after.remedy) == ("warning", True)


async def test_partitions_that_are_added_while_a_service_runs_are_named(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async with open_log("memory://", APP) as log, Runtime(log, config=FAST) as runtime:
        await runtime.idle()
        assert runtime.topic_faults == {}
        grown = {"heard": TopicIdentity("topic 1", 3, "memory")}
        monkeypatch.setattr(log.port, "identities", lambda _names: _answer(grown))

        async def is_seen() -> bool:
            return bool(runtime.topic_faults)

        await until(is_seen)
        (sentence,) = runtime.topic_faults.values()
        assert sentence.startswith(
            "topic heard has 3 partitions on the log, and is declared with 1: what is written to partitions 1 to 2 is read by "
            "no task"
        )
        assert [record.getMessage() for record in caplog.records if record.levelname == "ERROR"] == [sentence]
        assert sentence in complaints(await StatusReader(log).read(), Limits())
        grown.clear()

        async def is_gone() -> bool:
            return "not on the log any more" in runtime.topic_faults.get("heard", "")

        await until(is_gone)


async def _answer(found: dict[str, TopicIdentity]) -> dict[str, TopicIdentity]:
    return dict(found)


async def test_records_behind_an_open_transaction_are_lag_and_named(monkeypatch: pytest.MonkeyPatch) -> None:
    async with open_log("memory://", APP) as log:
        await hear(log, 2)
        async with Runtime(log, config=FAST) as runtime:
            await runtime.idle()
            hanging = OpenTransaction("orders-1 (producer 7)", 2, 1_700_000_000_000)
            monkeypatch.setattr(log.port, "written_end", lambda *_place: _five())
            monkeypatch.setattr(log.port, "holders", lambda *_place: _these([hanging]))
            assert (await runtime.tasks[0].lags())["heard", 0] == 3
            status = await StatusReader(log).read()
            assert status.tasks[0].lag == 3
            (complaint,) = complaints(status, Limits())
            assert complaint == (
                "heard/0: 3 offsets are behind an open transaction: orders-1 (producer 7), open from offset 2 on, last "
                "written at 2023-11-14 22:13:20 UTC"
            )


async def _five() -> int:
    return 5


async def _these(found: list[OpenTransaction]) -> list[OpenTransaction]:
    return found


async def test_compaction_leaves_gaps_and_loses_nothing() -> None:
    kept = Topic("kept", partitions=1, compacted=True)

    class Kept(Event, topic=kept, key="key"):
        key: str

    keeps: Decider[Count] = Decider("keeps", state=Count, key="key")

    @keeps.on(Kept)
    def note(_count: Count, _kept: Kept) -> list[Never]:
        return []

    async with open_log("memory://", Choreography("c", [Service("hears", deciders=[keeps])])) as log:
        for _ in range(5):
            await log.publish(Kept(key="k"))
        await log.port.compact()
        await settle(log)
        assert await lost(log) == []


@pytest.mark.parametrize("rests", [True, False], ids=["while it rests", "while it runs"])
async def test_a_topic_that_was_deleted_and_created_again_is_read_from_its_start(log: EventLog, *, rests: bool) -> None:
    await hear(log, 4)
    await settle(log)
    async with _running(log, rests=rests):
        await log.port.delete_topics(["heard"])
        await log.port.create_topics([HEARD])
        await hear(log, 6)
        if not rests:
            await until(lambda: _is(lost(log), 1))
    await settle(log)
    (step,) = await lost(log)
    assert "heard/0: the topic was deleted and created again, and what it had is gone" in step.detail
    assert await times(log) == 4 + 6
    positions = await positions_of(log, HEARS, 0)
    now = await log.port.identities(positions.next)
    assert positions.ids == {LOG: now["heard"].log, **{name: each.id for name, each in now.items()}}
    assert positions.next["heard"] == await log.port.end("heard", 0)


@asynccontextmanager
async def _running(log: EventLog, *, rests: bool) -> AsyncIterator[None]:
    if rests:
        yield
        return
    async with Runtime(log, config=FAST) as runtime:
        await runtime.idle()
        yield


async def test_a_position_behind_the_end_of_its_topic_goes_on_at_the_end(log: EventLog) -> None:
    await hear(log, 4)
    await settle(log)
    await _seek(log, 9)
    async with Runtime(log, config=FAST):
        await until(lambda: _is(lost(log), 1))
        await hear(log, 2)
    await settle(log)
    (step,) = await lost(log)
    assert (step.first, step.last) == (9, 4)
    assert "the topic has lost its end, with records that were handled" in step.detail
    assert await times(log) == 6


async def _seek(log: EventLog, to: int) -> None:
    async def decide(task: Task) -> Inputs:
        return Inputs(task.positions.at_ms, acts=[SeekOffset("heard", to, "a test")])

    await act(log, HEARS, 0, decide)


async def test_a_replay_goes_on_behind_a_loss_and_says_so(log: EventLog) -> None:
    await settle(log)
    await hear(log, 5, ago=True)
    await log.port.compact()
    await hear(log, 3)
    await settle(log)
    report = await replay(log)
    assert report.same
    (note,) = report.notes
    assert note.startswith("hears went on without inputs that were gone before it read them: heard/0: retention")


async def test_a_replay_of_what_is_gone_is_refused() -> None:
    async with open_log("memory://", APP) as log:
        await hear(log, 4)
        await settle(log)
        await log.port.delete_topics(["heard"])
        await log.port.create_topics([HEARD])
        await hear(log, 6)
        await settle(log)
        with pytest.raises(ContractError, match="hears has handled inputs of heard that are not on the log any more"):
            await replay(log)


async def test_positions_of_an_older_release_take_the_ids_of_their_topics(log: EventLog) -> None:
    await hear(log, 2)
    await settle(log)
    at = await positions_of(log, HEARS, 0)
    older = log.codec.encode(replace(at, topics=""))
    port, place = log.port, ("hears.changelog", 0)
    await port.append([Record(*place, -1, at.at_ms, POSITION_KEY.encode(), older, type="Positions")])
    await hear(log, 2)
    await settle(log)
    assert (await positions_of(log, HEARS, 0)).ids == at.ids
    assert await lost(log) == []
