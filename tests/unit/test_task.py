"""A task as the synchronous machine that it is: inputs in, one transaction out, without a log that is written to."""

from collections.abc import AsyncIterator
from datetime import timedelta
from itertools import count

import pytest

from eventlib import EventLog, open_log
from eventlib.errors import DamagedRecord
from eventlib.model.decider import FORGET
from eventlib.model.record import Record
from eventlib.runtime.bootstrap import InputStart, past_of
from eventlib.runtime.committer import TaskCommitter
from eventlib.runtime.keyed_state import NO_MEMORY
from eventlib.runtime.parking.parked import SkippedInput
from eventlib.runtime.records import Pause, Positions
from eventlib.runtime.runtime import prepare_own
from eventlib.runtime.state import TaskState
from eventlib.runtime.task import Task
from eventlib.runtime.transaction import Edit, Hold, Inputs, Release, SkipInput, Transaction
from eventlib.state.memory import MemoryStores
from tests.apps.bank import APP, Deposited

OFFSETS = count()
DUE_MS = 86_401_000
"""A day after the first deposit, when an account is stated."""


@pytest.fixture
async def log() -> AsyncIterator[EventLog]:
    async with open_log("memory://", APP) as log:
        await log.prepare()
        await prepare_own(log, log.choreography.services)
        yield log


def task_on(log: EventLog, **past: int) -> Task:
    service = log.choreography.services[0]
    store = MemoryStores().open(service.name, 0, 0, log.port.log_id)
    state = TaskState(store, log.codec, {each.name: each for each in service.deciders}, cached_entries=100)
    topics = [topic.name for topic in (*service.inputs, service.control)]
    positions = Positions(dict.fromkeys(topics, 0), 1, 1, past)
    return Task(service, 0, log, state, positions=positions, code_version="now")


def deposit(log: EventLog, offset: int, cents: int = 1, account: str = "a", at_ms: int = 1_000) -> Record:
    value = log.codec.encode(Deposited(account=account, cents=cents))
    return Record("deposits", 0, offset, at_ms, account.encode(), value, f"id-{offset}", "Deposited", "elsewhere")


def applied(task: Task, inputs: Inputs) -> Transaction:
    """Handle inputs, and take the transaction for appended."""
    transaction = task.handle(inputs)
    task.committed(transaction, [next(OFFSETS) for _ in transaction.records])
    return transaction


def credited(transaction: Transaction) -> list[str | None]:
    return [record.causation_id for record in transaction.events if record.type == "Credited"]


async def test_of_several_inputs_the_one_that_an_operator_skips_is_passed_over_and_no_other(log: EventLog) -> None:
    task = task_on(log)
    transaction = applied(task, Inputs(1_000, acts=[SkipInput("id-1", "ann: twice", once=True)]))
    assert credited(transaction) == []
    assert credited(applied(task, Inputs(1_000, [deposit(log, n) for n in range(3)]))) == ["id-0", "id-2"]


def test_a_skip_of_an_older_log_holds_for_good() -> None:
    assert SkippedInput("id", "ann").once is False


async def test_a_transaction_is_no_older_than_its_inputs_unless_another_system_gave_them_their_time(
    log: EventLog,
) -> None:
    task = task_on(log)
    rate = Record("rates", 0, 0, 99_000, b"a", b'{"account": "a"}')
    for inputs, at_ms in (
        (Inputs(2_000, [deposit(log, 0, at_ms=5_000)]), 5_000),
        (Inputs(2_000, [rate]), 2_000),
        (Inputs(2_000, [rate, deposit(log, 0, at_ms=3_000)]), 3_000),
    ):
        task.open(inputs)
        assert task.at_ms == at_ms
        task.rolled_back()


async def test_a_transaction_that_is_full_takes_no_more(log: EventLog, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("eventlib.runtime.task.MAX_EMITTED", 2)
    task = task_on(log)
    task.open(Inputs(DUE_MS, [deposit(log, n) for n in range(5)], due_ms=DUE_MS))
    assert task.taken == 2
    assert not task.take(deposit(log, 2), None), "the rest of what it was opened with comes first"
    task.rolled_back()
    assert applied(task, Inputs(1_000, [deposit(log, n) for n in range(5)])).passed.records == 2
    task.open(Inputs(1_000, [deposit(log, 2)]))
    assert task.take(deposit(log, 3), None)
    assert not task.take(deposit(log, 4), None)
    assert task.taken == 2


async def test_a_deadline_waits_for_inputs_of_before_its_time_that_found_no_room(
    log: EventLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("eventlib.runtime.task.MAX_EMITTED", 2)
    task = task_on(log)
    applied(task, Inputs(1_000, [deposit(log, 0)]))
    for last, types in ((4, ["Credited"] * 2), (3, ["Credited", "Credited", "Stated"])):
        task.open(Inputs(DUE_MS, [deposit(log, n) for n in range(1, last)], due_ms=DUE_MS))
        assert [each.type for each in task.events] == types
        task.rolled_back()


async def test_a_deadline_passes_also_while_a_damaged_input_may_be_about_any_key(log: EventLog) -> None:
    """Only forgetting waits for it: an input of a key that is forgotten would find nothing of what it is about."""
    task = task_on(log)
    applied(task, Inputs(1_000, [deposit(log, 0)]))
    applied(task, Inputs(2_000, damaged=DamagedRecord("it is gone", "deposits", 0, 1, 2)))
    assert task.processor.waits("account", FORGET, "a")
    assert [each.type for each in applied(task, Inputs(DUE_MS, due_ms=DUE_MS)).events] == ["Stated"]


async def test_a_transaction_takes_more_only_in_order_and_in_time(log: EventLog) -> None:
    task = task_on(log)
    task.open(Inputs(1_000, [deposit(log, 0)]))
    assert not task.take(deposit(log, 2), None)
    assert not task.take(deposit(log, 1, at_ms=1_001), None)
    assert task.take(deposit(log, 1, at_ms=1_000), None)
    assert not task.take(deposit(log, 1), None), "it has it already"
    task.rolled_back()
    task.open(Inputs(1_000, [deposit(log, 0)], acts=[SkipInput("another", "ann")]))
    assert not task.take(deposit(log, 1), None), "what an operator does stands alone"


async def test_what_was_there_before_the_first_start_is_remembered_until_it_was_read(log: EventLog) -> None:
    task = task_on(log)
    applied(task, Inputs(1_000, beginnings=[InputStart("deposits", 0, 2), InputStart("rates", 0, 0)]))
    assert task.positions.past == {"deposits": 2}
    (credit,) = applied(task, Inputs(1_000, [deposit(log, 0)])).events
    assert past_of(credit.headers), "its effects wait for a person"
    assert task.positions.past == {"deposits": 2}
    applied(task, Inputs(1_000, [deposit(log, 1)]))
    assert task.positions.past == {}
    (credit,) = applied(task, Inputs(1_000, [deposit(log, 2)])).events
    assert not past_of(credit.headers)


def held(task: Task, pause: Pause, at_ms: int, *, ends: bool = False) -> None:
    control = Record(task.service.control.name, 0, task.positions.next[task.service.control.name], at_ms, b"", b"")
    applied(task, Inputs(at_ms, release=Release(control, hold=Hold(pause, ends))))


async def test_a_paused_key_holds_its_own_effects_and_a_pause_that_is_there_goes_on_as_it_was(log: EventLog) -> None:
    task, pause = task_on(log), Pause("key", "account", "a", by="ann")
    held(task, pause, 1_000)
    pauses = task.processor.pauses
    request = Record("charges", 0, 1, 1, b"a", b"", "id", "Asked", "bank/account", "a")
    assert pauses.holds_effect(request)
    assert not pauses.holds_effect(request.replace(subject="b"))
    held(task, pause, 2_000)
    assert [each.since_ms for each in pauses.all.values()] == [1_000]
    held(task, Pause("key", "account", "b"), 3_000, ends=True)
    assert [each.since_ms for each in pauses.all.values()] == [1_000]
    held(task, pause, 4_000, ends=True)
    assert pauses.all == {}
    assert not pauses.holds_effect(request)


async def test_only_the_input_that_was_edited_is_marked_as_edited_when_it_fails_again(log: EventLog) -> None:
    task = task_on(log)
    transaction = applied(task, Inputs(1_000, [deposit(log, 0, -1), deposit(log, 1, -2)]))
    waiting = [record.placed(n) for n, record in enumerate(transaction.events)]
    assert len(waiting) == 2

    def edited(at: int, cents: int) -> int:
        value = log.codec.encode(Deposited(account="a", cents=cents))
        control = Record(task.service.control.name, 0, at, 1_000, b"", b"")
        release = Release(control, waiting, amendment=Edit(at, "id-0", "Deposited", value, "ann"))
        task.open(Inputs(1_000, release=release))
        parked = task.processor.parked.get("account", "a")
        task.rolled_back()
        assert parked is not None
        return parked.edited

    assert edited(0, cents=-3) == 0
    assert edited(0, cents=3) == -1, "the second one fails as it is"


async def test_a_turn_commits_what_the_inbox_has_and_empties_it(log: EventLog) -> None:
    committer = TaskCommitter(task_on(log), await log.port.seize("bank", 0), log, lambda *_: True, skipped_inputs=1)
    await committer.open().close()
    committer.inbox = [deposit(log, 0), deposit(log, 1)]
    await committer.turn(1_000)
    assert committer.inbox == []
    assert [record.causation_id for record in await log.port.read("credits", 0, 0, 10)] == ["id-0", "id-1"]


MINUTE = timedelta(minutes=1)


def test_an_answered_request_is_remembered_until_its_time_is_over_and_not_a_moment_longer() -> None:
    memory = NO_MEMORY.with_answered("r", "hash", 1_000, MINUTE)
    assert memory.answer_to("r", 60_999) == "hash"
    assert memory.answer_to("r", 61_000) is None
    assert memory.answer_to("another", 1_000) is None


def test_a_request_without_an_end_is_remembered_beside_one_that_has_an_end() -> None:
    memory = NO_MEMORY.with_answered("always", "a", 1_000, None).with_answered("minute", "m", 1_000, MINUTE)
    assert memory.answer_to("always", 10**15) == "a"
    later = memory.with_answered("another", "b", 61_000, None)
    assert (later.answer_to("always", 61_000), "minute" in later.answered) == ("a", False)


def test_a_pause_names_who_wants_it_and_the_reason_if_there_is_one() -> None:
    assert Pause("service", by="ann").why == "ann"
    assert Pause("service", by="ann", reason="a deployment").why == "ann: a deployment"
