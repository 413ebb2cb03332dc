"""The outbox's relay in the simulator: each row once, in its key's order, whatever dies; and each planted bug is found."""

from collections.abc import Sequence
from random import Random
from typing import Any

import pytest

from eventlib.log.base import Claim
from eventlib.model.record import Record
from eventlib.outbox.relay import Relay, _Past
from eventlib.outbox.rows import OutboxRow
from eventlib.simulation.consumer_process import ProcessLog
from eventlib.simulation.scenario import drawn_from
from eventlib.simulation.schedule import Schedule
from eventlib.simulation.stage import Stage
from tests.saga.mutant import Plant
from tests.saga.simulated_outbox import LOST, NOTES, ORDER, TWICE, OutboxScenario, _Table


def broken_by(seed: int) -> str | None:
    scenario = OutboxScenario()
    Schedule(Stage(NOTES), scenario, 1, drawn_from(Random(seed)), keep_story=False).play()
    return scenario.outbox.found()


def a_successor_does_not_know_what_was_brought(patch: pytest.MonkeyPatch) -> None:
    async def past(_relay: Relay) -> _Past:
        return _Past()

    patch.setattr(Relay, "_past", past)


def an_append_without_an_answer_has_failed(patch: pytest.MonkeyPatch) -> None:
    right, known = Relay._past, dict[Relay, _Past]()  # noqa: SLF001  no other way to plant it, here and below

    async def past(relay: Relay) -> _Past:
        known[relay] = known.get(relay) or await right(relay)
        return known[relay]

    patch.setattr(Relay, "_past", past)


def rows_are_settled_before_they_are_on_the_log(patch: pytest.MonkeyPatch) -> None:
    right = _Table.take

    async def take(table: _Table, limit: int) -> list[OutboxRow]:
        rows = await right(table, limit)
        await table.settle([row.id for row in rows])
        return rows

    patch.setattr(_Table, "take", take)


def a_relay_has_a_position(patch: pytest.MonkeyPatch) -> None:
    right = _Past.has

    def has(past: _Past, row: OutboxRow) -> bool:
        return right(past, row) or row.id < max((known for known, _ in past._rows), default=-1)  # noqa: SLF001

    patch.setattr(_Past, "has", has)


def a_zombie_may_append(patch: pytest.MonkeyPatch) -> None:
    right = ProcessLog.append

    async def append(log: ProcessLog, records: Sequence[Record], _claim: Claim | None = None) -> list[int]:
        return await right(log, records)

    patch.setattr(ProcessLog, "append", append)


def rows_come_the_newest_first(patch: pytest.MonkeyPatch) -> None:
    right = Relay._records  # noqa: SLF001

    async def records(relay: Relay, rows: Sequence[OutboxRow]) -> Any:
        return await right(relay, [*reversed(rows)])

    patch.setattr(Relay, "_records", records)


MUTANTS: dict[str, tuple[Plant, str]] = {
    plant.__name__: (plant, found)
    for plant, found in [
        (a_successor_does_not_know_what_was_brought, TWICE),
        (an_append_without_an_answer_has_failed, TWICE),
        (rows_are_settled_before_they_are_on_the_log, LOST),
        (a_relay_has_a_position, LOST),
        (a_zombie_may_append, TWICE),
        (rows_come_the_newest_first, ORDER),
    ]
}


@pytest.mark.parametrize("name", MUTANTS)
def test_a_planted_bug_is_found(name: str) -> None:
    plant, found = MUTANTS[name]
    with pytest.MonkeyPatch.context() as patch:
        plant(patch)
        assert any(broken_by(seed) == found for seed in range(30))


def test_each_row_comes_once_and_in_order_whatever_happens() -> None:
    assert {broken_by(seed) for seed in range(30)} == {None}


@pytest.mark.slow
def test_each_row_comes_once_in_many_schedules() -> None:
    assert {broken_by(seed) for seed in range(1_000)} == {None}
