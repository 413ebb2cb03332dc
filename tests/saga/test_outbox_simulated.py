"""The outbox's relay in the simulator: each row once, in its key's order, whatever dies; and each planted bug is found."""

from random import Random

import pytest

from eventlib.outbox.rows import OutboxRow
from eventlib.simulation.scenario import drawn_from
from eventlib.simulation.schedule import Schedule
from eventlib.simulation.stage import Stage
from tests.saga.mutant import Plant
from tests.saga.planted import written
from tests.saga.simulated_outbox import LOST, NOTES, ORDER, TWICE, OutboxScenario, Table


def broken_by(seed: int) -> str | None:
    scenario = OutboxScenario()
    Schedule(Stage(NOTES), scenario, 1, drawn_from(Random(seed)), keep_story=False).play()
    return scenario.outbox.found()


def rows_are_settled_before_they_are_on_the_log(patch: pytest.MonkeyPatch) -> None:
    right = Table.take

    async def take(table: Table, limit: int) -> list[OutboxRow]:
        rows = await right(table, limit)
        await table.settle([row.id for row in rows])
        return rows

    patch.setattr(Table, "take", take)


RELAY = "eventlib/outbox/relay.py"
_PORT = "port, place = self._log.port, (OUTBOXES.name, 0)"
_RETURN = "        return past\n\n\nclass _Past"
_HAS = "in self._rows\n"
MUTANTS: dict[str, tuple[Plant, str]] = {
    "a successor does not know what was brought": (
        written(RELAY, (_RETURN, _RETURN.replace("past", "_Past()", 1))),
        TWICE,
    ),
    "an append without an answer has failed": (
        written(
            RELAY,
            (_PORT, f'if "was" in vars(self._table):\n            return self._table.was\n        {_PORT}'),
            (_RETURN, f"        self._table.was = past\n{_RETURN}"),
        ),
        TWICE,
    ),
    "rows are settled before they are on the log": (rows_are_settled_before_they_are_on_the_log, LOST),
    "a relay has a position": (
        written(RELAY, (_HAS, f"{_HAS[:-1]} or row.id < max((known for known, _ in self._rows), default=-1)\n")),
        LOST,
    ),
    "a zombie may append": (
        written(
            "eventlib/simulation/consumer_process.py",
            ("MemoryLog.append(self, records, claim)", "MemoryLog.append(self, records)"),
        ),
        TWICE,
    ),
    "rows come the newest first": (
        written(
            RELAY,
            ("        for row in rows:\n            if (row", "        for row in rows[::-1]:\n            if (row"),
        ),
        ORDER,
    ),
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
