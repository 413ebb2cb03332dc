"""Bugs planted into the runtime: each takes away one thing that it promises."""

from collections.abc import Mapping, Sequence
from itertools import count
from typing import Any

import pytest

from eventlib import Meta
from eventlib.model import decider as decider_module
from eventlib.model.record import Record
from eventlib.runtime.effect_attempts import EffectAttempts
from eventlib.runtime.parking.parked import PAUSED
from eventlib.runtime.pending import PendingEffects
from eventlib.runtime.records import EFFECT
from eventlib.runtime.transaction_builder import ANY_TIME_MS
from eventlib.simulation import stage
from tests.saga.mutant import Mutant
from tests.saga.planted import changed

RUNS = "eventlib/runtime"
STATE, TASK, PROCESSOR, LOST = (f"{RUNS}/{name}.py" for name in ("state", "task", "processor", "lost_owners"))
COMMITTER, EMIT, PARKING = f"{RUNS}/committer.py", f"{RUNS}/emit.py", f"{RUNS}/parking"
_NEWEST = "newest = {record.key: record for record in records"
_APPENDED = """        transaction = self.task.close()
        offsets = await self._log.port.append(transaction.events, self.claim)
        rest = [*transaction.changes, *transaction.journal]
        return self.settle(transaction, [*offsets, *await self._log.port.append(rest, self.claim)])
"""


def paused_effects_are_not_started_again(patch: pytest.MonkeyPatch) -> None:
    right, begun = PendingEffects.start, set[PendingEffects]()

    def start(pending: PendingEffects, most: int) -> None:
        if pending not in begun:
            begun.add(pending)
            right(pending, most)

    patch.setattr(PendingEffects, "start", start)


def each_attempt_has_a_key_of_its_own(patch: pytest.MonkeyPatch) -> None:
    right, numbers = EffectAttempts.arguments, count()

    def arguments(course: EffectAttempts, ports: Mapping[str, object]) -> list[Any]:
        return [
            each._replace(id=f"{next(numbers):032x}") if isinstance(each, Meta) else each
            for each in right(course, ports)
        ]

    patch.setattr(EffectAttempts, "arguments", arguments)


def odd_ends_pass_through(patch: pytest.MonkeyPatch) -> None:
    def as_it_was(raised: BaseException) -> BaseException:
        return raised

    patch.setattr(decider_module, "as_error", as_it_was)


def damaged_states_are_taken_for_nothing(patch: pytest.MonkeyPatch) -> None:
    async def nothing(*_: object) -> Sequence[Record]:
        return ()

    patch.setattr(stage, "rebuilt", nothing)


RUNTIME: dict[str, Mutant] = {
    "what owners are lost with is handled again and again": changed(
        LOST, "if count < self._most:", "if True:", "all_comes_to_rest", seed=11
    ),
    "lost owners are not counted": changed(
        COMMITTER, "self._was_lost: bool | None = was_lost", "self._was_lost = False", "all_comes_to_rest", seed=11
    ),
    "odd ends of a decider's functions pass through": Mutant(odd_ends_pass_through, "no_task_fails", seed=7),
    "a damaged state is taken for nothing": Mutant(
        damaged_states_are_taken_for_nothing, "shelves_hold_what_the_log_says", seed=102
    ),
    "a damaged state goes by the key that stands there": changed(
        "eventlib/replay/rebuilding.py",
        "    key = None if there is None",
        "    there = damaged.record\n    key = None if not isinstance(there, Record)",
        "shelves_hold_what_the_log_says",
        seed=865,
    ),
    "a damaged input is passed over": changed(
        PROCESSOR,
        "for decider in self.inputs.readers_of(damaged.topic):",
        "for decider in ():",
        "submitted_orders_are_placed",
        seed=57,
    ),
    "what a disk says is believed": changed(
        "eventlib/simulation/log.py",
        "            except DamagedRecord:\n",
        "            except DamagedRecord as error:\n"
        "                if not found:\n"
        "                    return [error.record] if isinstance(error.record, Record) else []\n",
        "orders_come_to_an_end",
        seed=57,
    ),
    "requests are not remembered": changed(
        f"{RUNS}/keyed_state.py",
        "kept = self._without(at_ms) if self.until or self.moved else self",
        "return self",
        "ids_are_unique",
        seed=131,
    ),
    "deadlines do not wait for what is there": changed(
        COMMITTER,
        "        assert self._reader is not None  # noqa: S101  opened before the first turn\n        if self._barrier",
        "        return now_ms\n        if self._barrier",
        "deadlines_wait",
        seed=17,
    ),
    "a zombie is not fenced": changed(
        "eventlib/log/memory_owners.py", "if claim.epoch != newest:", "if False:", "ids_are_unique", seed=7
    ),
    "events and states are not one transaction": changed(
        COMMITTER,
        "        if self._chain is None or self._appends_alone",
        f"{_APPENDED}        if self._chain is None or self._appends_alone",
        "causes_come_first",
        seed=15,
    ),
    "positions are not in the transaction": changed(
        TASK,
        "changes.append(self._own_record(self._changelog, POSITION_KEY",
        "if not (changes and draft.events): changes.append(self._own_record(self._changelog, POSITION_KEY",
        "ids_are_unique",
        seed=7,
    ),
    "a wrong key is hashed": changed(
        EMIT,
        "topic.partition_of(key),",
        '(topic.partition_of(key) + (target.type == "LineReleased")) % 8,',
        "orders_come_to_an_end",
        seed=1,
    ),
    "an effect is answered twice": changed(
        STATE,
        "self._put[key] = record",
        f"self._put |= {{key: record}} if record is not None or not key.startswith({EFFECT!r}) else {{}}",
        "ids_are_unique",
        seed=86,
    ),
    "some states are not restored": changed(
        STATE,
        _NEWEST,
        f'{_NEWEST} if not (record.key or b"").startswith(b"state/payment")',
        "facts_are_numbered",
        seed=142,
    ),
    "the end of a changelog is missed": changed(
        STATE, _NEWEST, f"{_NEWEST}[:-1 if len(records) > 5 else None]", "ids_are_unique", seed=17
    ),
    "a store claims more than it holds": changed(
        STATE,
        "self.store.write({**writes, **self._index_moves}, self._checkpoint)",
        "return self.store.write({}, self._checkpoint)",
        "ids_are_unique",
        seed=30,
    ),
    "pending effects are not started again": changed(
        f"{RUNS}/pending.py",
        "for each in self._state.committed(EFFECT) if",
        "for each in self._state.committed(EFFECT) if False and",
        "orders_come_to_an_end",
        seed=142,
    ),
    "an input of a paused key is passed over": changed(
        PROCESSOR,
        "        failure = failure.shortened\n",
        f"        if failure.reason.startswith({PAUSED!r}):\n            return\n        failure = failure.shortened\n",
        "orders_come_to_an_end",
        seed=7,
    ),
    "deadlines of what is paused pass": changed(
        f"{PARKING}/pauses.py",
        "return self._all_wait or decider in self._late or",
        "return False and",
        "deadlines_wait",
        seed=298,
    ),
    "paused effects are not started again": Mutant(
        paused_effects_are_not_started_again, "orders_come_to_an_end", seed=433
    ),
    "a parked key is overtaken": changed(
        f"{PARKING}/parked.py",
        "        self._known.add((parked.decider, parked.key))\n        self.any = True\n",
        "        self._known.add((parked.decider, parked.key))\n",
        "orders_come_to_an_end",
        seed=1663,
    ),
    "parked inputs come back in another order": changed(
        f"{PARKING}/releasing.py",
        "        return found\n\n    def _waiting",
        "        return found[::-1]\n\n    def _waiting",
        "orders_come_to_an_end",
        seed=175,
    ),
    "a refused append leaves its changes": changed(
        TASK, '"""Discard a transaction that was not appended."""', "return", "causes_come_first", seed=127
    ),
    "each attempt has a key of its own": Mutant(each_attempt_has_a_key_of_its_own, "nothing_stays_parked", seed=2),
    "one id for all that a turn says": changed(
        EMIT, "(self, emitted, self._ids)", "(self, emitted, self._ids[:1] * len(emitted))", "ids_are_unique", seed=0
    ),
    "the future is believed": changed(
        TASK, "inputs.now_ms + self._ahead_ms", f"inputs.now_ms + {ANY_TIME_MS}", "times_are_of_the_clock", seed=46
    ),
    "the clock is believed": changed(
        TASK,
        "self._begin(self.positions.clock.unused(at_ms) if RESET in self.positions.topics else at_ms)",
        "self._begin(inputs.now_ms)",
        "causes_come_first",
        seed=148,
    ),
}
