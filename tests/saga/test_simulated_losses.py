"""Requests that retention drops before a task has read them, in simulated shops: each is named, and all else holds."""

from collections import Counter
from random import Random

import pytest

from eventlib.runtime import committer
from eventlib.simulation.plan import Departure, Fault
from eventlib.simulation.scenario import drawn_from
from eventlib.simulation.schedule import InvariantViolated, Schedule
from eventlib.simulation.stage import Stage
from services import shop
from services.simulation.scenario import ShopScenario
from tests import compiled_core

SEEDS = range(120)


def played(stage: Stage, seed: int) -> Schedule:
    """Play a schedule of which retention drops requests at some steps."""
    schedule, chance = (
        Schedule(stage, ShopScenario(), 1 + seed % 3, drawn_from(Random(seed)), keep_story=False),
        Random(seed),
    )
    for _ in range(12):
        departure = Departure(chance.randrange(200), Fault.LOSS, *(chance.randrange(1_000) for _ in range(3)))
        schedule.plan.faults.setdefault(departure.step, []).append(departure)
    schedule.play()
    return schedule


def test_what_is_lost_is_named_and_nothing_else_is_broken() -> None:
    stage, faults = Stage(shop), Counter[str]()
    for seed in SEEDS:
        faults += played(stage, seed).world.faults
    assert faults[Fault.LOSS.value] > 10


@pytest.mark.skipif(compiled_core.runs(), reason="In a compiled runtime no bug can be planted.")
def test_a_loss_that_is_passed_over_in_silence_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    async def nothing(*_: object) -> list[object]:
        return []

    monkeypatch.setattr(committer, "losses_of", nothing)
    stage = Stage(shop)

    def play() -> None:
        for seed in SEEDS:
            played(stage, seed)

    with pytest.raises(InvariantViolated) as found:
        play()
    assert found.value.violation.invariant.name == "losses_are_named"
