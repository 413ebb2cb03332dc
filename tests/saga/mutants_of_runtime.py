"""Bugs planted into the runtime: each takes away one thing that it promises."""

from collections.abc import Mapping, Sequence
from itertools import count
from typing import Any

import pytest

from eventlib import Event, Meta
from eventlib.errors import DamagedRecord
from eventlib.log.base import Claim, Log, TopicPartition
from eventlib.log.memory_owners import MemoryOwners
from eventlib.model import decider as decider_module
from eventlib.model.decider import Decider
from eventlib.model.kept_error import KeptError
from eventlib.model.record import Record, key_text
from eventlib.replay import rebuilding
from eventlib.runtime.committer import TaskCommitter
from eventlib.runtime.effect_attempts import EffectAttempts
from eventlib.runtime.emit import Emission, RecordBuilder
from eventlib.runtime.keyed_state import KeyMetadata
from eventlib.runtime.lost_owners import Suspects
from eventlib.runtime.parking.parked import PAUSED, ParkedKeys
from eventlib.runtime.parking.pauses import Pauses
from eventlib.runtime.parking.releasing import WaitingInputs
from eventlib.runtime.pending import PendingEffects
from eventlib.runtime.processor import InputProcessor
from eventlib.runtime.records import EFFECT, POSITION_KEY, ParkedKey
from eventlib.runtime.state import TaskState
from eventlib.runtime.task import Task
from eventlib.runtime.transaction import Inputs, Transaction
from eventlib.runtime.transaction_builder import ANY_TIME_MS
from eventlib.simulation import stage
from eventlib.simulation.log import SimulatedLog
from tests.saga.mutant import Mutant


def requests_are_not_remembered(patch: pytest.MonkeyPatch) -> None:
    def forget(memory: KeyMetadata, *_: object) -> KeyMetadata:
        return memory

    patch.setattr(KeyMetadata, "with_answered", forget)


def deadlines_do_not_wait(patch: pytest.MonkeyPatch) -> None:
    async def due(worker: TaskCommitter, now_ms: int, _takes_all: bool) -> int | None:
        at = worker.task.next_due_ms(now_ms)
        return now_ms if at is not None and at <= now_ms else None

    patch.setattr(TaskCommitter, "_due", due)


def zombies_write(patch: pytest.MonkeyPatch) -> None:
    def let_through(_owners: MemoryOwners, _claim: Claim) -> None:
        return

    patch.setattr(MemoryOwners, "check", let_through)


def events_before_states(patch: pytest.MonkeyPatch) -> None:
    async def append(worker: TaskCommitter) -> None:
        transaction = worker.task.close()
        offsets = await worker._log.port.append(transaction.events, worker.claim)  # noqa: SLF001  no other way to plant it
        rest = [*transaction.changes, *transaction.journal]
        worker.settle(transaction, [*offsets, *await worker._log.port.append(rest, worker.claim)])  # noqa: SLF001  as above

    patch.setattr(TaskCommitter, "_append", append)


def positions_stay_behind(patch: pytest.MonkeyPatch) -> None:
    right = Task.close

    def close(task: Task) -> Transaction:
        transaction = right(task)
        kept = [record for record in transaction.changes if record.key != POSITION_KEY.encode()]
        return transaction._replace(changes=kept) if kept and transaction.events else transaction

    patch.setattr(Task, "close", close)


def a_wrong_key_is_hashed(patch: pytest.MonkeyPatch) -> None:
    right = RecordBuilder.record

    def record(builder: RecordBuilder, turn: Emission, ordinal: int, event: Event) -> Record:
        said = right(builder, turn, ordinal, event)
        return said.replace(partition=(said.partition + 1) % 8) if said.type == "LineReleased" else said

    patch.setattr(RecordBuilder, "record", record)


def answered_effects_stay_pending(patch: pytest.MonkeyPatch) -> None:
    right = TaskState.put

    def put(state: TaskState, key: str, record: Record | None) -> None:
        if record is not None or not key.startswith(EFFECT):
            right(state, key, record)

    patch.setattr(TaskState, "put", put)


def some_states_are_not_restored(patch: pytest.MonkeyPatch) -> None:
    right = TaskState.restore

    def restore(state: TaskState, records: list[Record], checkpoint: int) -> None:
        right(state, [each for each in records if not (each.key or b"").startswith(b"state/payment")], checkpoint)

    patch.setattr(TaskState, "restore", restore)


def the_end_of_a_changelog_is_missed(patch: pytest.MonkeyPatch) -> None:
    right = TaskState.restore

    def restore(state: TaskState, records: list[Record], checkpoint: int) -> None:
        right(state, records[:-1] if len(records) > 5 else records, checkpoint)

    patch.setattr(TaskState, "restore", restore)


def a_store_claims_more_than_it_holds(patch: pytest.MonkeyPatch) -> None:
    right = TaskState.flush

    def flush(state: TaskState) -> None:
        checkpoint = state._checkpoint  # noqa: SLF001  no other way to plant it
        if checkpoint == state.store.checkpoint:
            right(state)
        else:
            state.store.write({}, checkpoint)

    patch.setattr(TaskState, "flush", flush)


def pending_effects_are_not_started_again(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(PendingEffects, "start", lambda _pending, _most: None)


def paused_effects_are_not_started_again(patch: pytest.MonkeyPatch) -> None:
    right, begun = PendingEffects.start, set[PendingEffects]()

    def start(pending: PendingEffects, most: int) -> None:
        if pending not in begun:
            begun.add(pending)
            right(pending, most)

    patch.setattr(PendingEffects, "start", start)


def inputs_of_a_paused_key_are_passed_over(patch: pytest.MonkeyPatch) -> None:
    right = InputProcessor.park

    def park(processor: InputProcessor, decider: Decider[Any], record: Record, failure: KeptError) -> None:
        if not failure.reason.startswith(PAUSED):
            right(processor, decider, record, failure)

    patch.setattr(InputProcessor, "park", park)


def deadlines_of_what_is_paused_pass(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Pauses, "holds_deadline", lambda _pauses, _decider, _key: False)


def parked_keys_are_overtaken(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ParkedKeys, "any", property(lambda _parked: False))


def parked_inputs_come_back_in_another_order(patch: pytest.MonkeyPatch) -> None:
    right = WaitingInputs.behind

    async def backwards(inputs: WaitingInputs, parked: ParkedKey) -> Sequence[Record]:
        return [*reversed(await right(inputs, parked))]

    patch.setattr(WaitingInputs, "behind", backwards)


def a_refused_append_leaves_its_changes(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Task, "rolled_back", lambda _task: None)


def each_attempt_has_a_key_of_its_own(patch: pytest.MonkeyPatch) -> None:
    right, numbers = EffectAttempts.arguments, count()

    def arguments(course: EffectAttempts, ports: Mapping[str, object]) -> list[Any]:
        return [
            each._replace(id=f"{next(numbers):032x}") if isinstance(each, Meta) else each
            for each in right(course, ports)
        ]

    patch.setattr(EffectAttempts, "arguments", arguments)


def one_id_for_all_that_a_turn_says(patch: pytest.MonkeyPatch) -> None:
    right = Emission.id
    patch.setattr(Emission, "id", lambda turn, _ordinal: right(turn, 0))


def the_clock_is_believed(patch: pytest.MonkeyPatch) -> None:
    opened, begun = Task.open, Task._begin  # noqa: SLF001  no other way to plant it
    clocks: dict[Task, int] = {}

    def open_at(task: Task, inputs: Inputs) -> None:
        clocks[task] = inputs.now_ms
        opened(task, inputs)

    def begin(task: Task, at_ms: int) -> None:
        begun(task, clocks.get(task, at_ms))

    patch.setattr(Task, "open", open_at)
    patch.setattr(Task, "_begin", begin)


def damaged_inputs_are_passed_over(patch: pytest.MonkeyPatch) -> None:
    def go_past(processor: InputProcessor, damaged: DamagedRecord) -> None:
        processor.draft.steps.went_past(damaged.topic, damaged.offset, damaged.resume_at - 1)
        processor.draft.is_met = True

    patch.setattr(InputProcessor, "take_damaged", go_past)


def damaged_inputs_are_believed(patch: pytest.MonkeyPatch) -> None:
    right = SimulatedLog._from_disk  # noqa: SLF001  no other way to plant it

    def believe(log: SimulatedLog, written: Sequence[Record]) -> list[Record]:
        try:
            return right(log, written)
        except DamagedRecord as error:
            return [error.record] if isinstance(error.record, Record) else []

    patch.setattr(SimulatedLog, "_from_disk", believe)


def damaged_states_are_taken_for_nothing(patch: pytest.MonkeyPatch) -> None:
    async def nothing(*_: object) -> Sequence[Record]:
        return ()

    patch.setattr(stage, "rebuilt", nothing)


def damaged_states_go_by_the_key_that_stands_there(patch: pytest.MonkeyPatch) -> None:
    around = rebuilding._around  # noqa: SLF001  no other way to plant it

    async def believe(port: Log, place: TopicPartition, damaged: DamagedRecord) -> object:
        found = await around(port, place, damaged)
        return found if not isinstance(damaged.record, Record) else found._replace(key=key_text(damaged.record))

    patch.setattr(rebuilding, "_around", believe)


def odd_ends_pass_through(patch: pytest.MonkeyPatch) -> None:
    def as_it_was(raised: BaseException) -> BaseException:
        return raised

    patch.setattr(decider_module, "as_error", as_it_was)


def the_future_is_believed(patch: pytest.MonkeyPatch) -> None:
    opened = Task.open

    def open_at(task: Task, inputs: Inputs) -> None:
        task._ahead_ms = ANY_TIME_MS  # noqa: SLF001  no other way to plant it
        opened(task, inputs)

    patch.setattr(Task, "open", open_at)


def nothing_is_parked_for_lost_owners(patch: pytest.MonkeyPatch) -> None:
    def never(_suspects: Suspects, _suspect: str) -> None:
        return

    patch.setattr(Suspects, "_why_parked", never)


def lost_owners_are_not_counted(patch: pytest.MonkeyPatch) -> None:
    right = TaskCommitter.__init__

    def init(worker: TaskCommitter, *args: Any, was_lost: bool = False, **named: Any) -> None:
        del was_lost
        right(worker, *args, **named)

    patch.setattr(TaskCommitter, "__init__", init)


RUNTIME: dict[str, Mutant] = {
    "what owners are lost with is handled again and again": Mutant(
        nothing_is_parked_for_lost_owners, "all_comes_to_rest", seed=11
    ),
    "lost owners are not counted": Mutant(lost_owners_are_not_counted, "all_comes_to_rest", seed=11),
    "odd ends of a decider's functions pass through": Mutant(odd_ends_pass_through, "no_task_fails", seed=7),
    "a damaged state is taken for nothing": Mutant(
        damaged_states_are_taken_for_nothing, "shelves_hold_what_the_log_says", seed=102
    ),
    "a damaged state goes by the key that stands there": Mutant(
        damaged_states_go_by_the_key_that_stands_there, "shelves_hold_what_the_log_says", seed=865
    ),
    "a damaged input is passed over": Mutant(damaged_inputs_are_passed_over, "orders_come_to_an_end", seed=57),
    "what a disk says is believed": Mutant(damaged_inputs_are_believed, "orders_come_to_an_end", seed=57),
    "requests are not remembered": Mutant(requests_are_not_remembered, "ids_are_unique", seed=153),
    "deadlines do not wait for what is there": Mutant(deadlines_do_not_wait, "deadlines_wait", seed=17),
    "a zombie is not fenced": Mutant(zombies_write, "ids_are_unique", seed=7),
    "events and states are not one transaction": Mutant(events_before_states, "causes_come_first", seed=291),
    "positions are not in the transaction": Mutant(positions_stay_behind, "ids_are_unique", seed=7),
    "a wrong key is hashed": Mutant(a_wrong_key_is_hashed, "orders_come_to_an_end", seed=2),
    "an effect is answered twice": Mutant(answered_effects_stay_pending, "ids_are_unique", seed=86),
    "some states are not restored": Mutant(some_states_are_not_restored, "facts_are_numbered", seed=142),
    "the end of a changelog is missed": Mutant(the_end_of_a_changelog_is_missed, "ids_are_unique", seed=17),
    "a store claims more than it holds": Mutant(a_store_claims_more_than_it_holds, "ids_are_unique", seed=30),
    "pending effects are not started again": Mutant(
        pending_effects_are_not_started_again, "orders_come_to_an_end", seed=142
    ),
    "an input of a paused key is passed over": Mutant(
        inputs_of_a_paused_key_are_passed_over, "orders_come_to_an_end", seed=7
    ),
    "deadlines of what is paused pass": Mutant(deadlines_of_what_is_paused_pass, "deadlines_wait", seed=298),
    "paused effects are not started again": Mutant(
        paused_effects_are_not_started_again, "orders_come_to_an_end", seed=433
    ),
    "a parked key is overtaken": Mutant(parked_keys_are_overtaken, "orders_come_to_an_end", seed=1663),
    "parked inputs come back in another order": Mutant(
        parked_inputs_come_back_in_another_order, "orders_come_to_an_end", seed=175
    ),
    "a refused append leaves its changes": Mutant(a_refused_append_leaves_its_changes, "causes_come_first", seed=291),
    "each attempt has a key of its own": Mutant(each_attempt_has_a_key_of_its_own, "nothing_stays_parked", seed=2),
    "one id for all that a turn says": Mutant(one_id_for_all_that_a_turn_says, "ids_are_unique", seed=0),
    "the future is believed": Mutant(the_future_is_believed, "times_are_of_the_clock", seed=46),
    "the clock is believed": Mutant(the_clock_is_believed, "causes_come_first", seed=148),
}
