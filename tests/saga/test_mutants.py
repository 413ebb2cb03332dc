"""The simulator is worth something: each bug that is planted into the shop or the runtime breaks the invariant it has to."""

import asyncio
from collections import Counter
from random import Random

import pytest

from eventlib.simulation.scenario import drawn_from
from eventlib.simulation.schedule import Schedule
from eventlib.simulation.stage import Stage
from services import shop
from services.order.events import OrderCancelled, OrderCompleted
from services.simulation.scenario import ShopScenario
from tests import compiled_core
from tests.integration.reopening import events
from tests.saga.mutant import Mutant
from tests.saga.mutants_of_runtime import RUNTIME
from tests.saga.mutants_of_services import SERVICES
from tests.saga.planted import broken_by

MUTANTS = {**SERVICES, **RUNTIME}
PLANTABLE = SERVICES if compiled_core.runs() else MUTANTS
"""In a compiled runtime no bug can be planted."""
SCHEDULES = 2_500
"""Among so many each bug shows; most of them among the first hundred."""


def orders_of_things() -> list[list[object]]:
    return [
        [*places]
        for service in shop.services
        for decider in service.deciders
        for places in (decider.handlers, decider.effects, decider.deadlines)
    ]


@pytest.mark.parametrize("name", PLANTABLE)
def test_a_planted_bug_breaks_its_law(name: str) -> None:
    mutant, before = MUTANTS[name], orders_of_things()
    with pytest.MonkeyPatch.context() as patch:
        mutant.plant(patch)
        broken = broken_by(Stage(shop), ShopScenario, mutant.seed)
    assert broken == mutant.invariant, "what is drawn has changed? The long tests say which schedule shows it now"
    assert orders_of_things() == before, "what comes back in another order is another shop for the tests after"


@pytest.mark.slow
@pytest.mark.parametrize("name", PLANTABLE)
def test_no_schedule_before_shows_a_planted_bug(name: str) -> None:
    mutant = MUTANTS[name]
    with pytest.MonkeyPatch.context() as patch:
        mutant.plant(patch)
        stage = Stage(shop)
        assert next(seed for seed in range(SCHEDULES) if _breaks(mutant, stage, seed)) == mutant.seed


def _breaks(mutant: Mutant, stage: Stage, seed: int) -> bool:
    try:
        return broken_by(stage, ShopScenario, seed) == mutant.invariant
    except ValueError:  # what believes its disk reads nonsense
        return False


def test_the_shop_breaks_no_law_with_the_same_seeds_and_every_ending_is_seen() -> None:
    stage, seen = Stage(shop), Counter[str]()
    for seed in {*range(63), *(mutant.seed for mutant in MUTANTS.values())}:
        schedule = Schedule(stage, ShopScenario(), 1 + seed % 3, drawn_from(Random(seed)), keep_story=False)
        schedule.play()
        for event in asyncio.run(events(schedule.world.log, "orders")):
            seen["completed"] += isinstance(event, OrderCompleted)
            seen.update([event.reason] if isinstance(event, OrderCancelled) else [])
    endings = "completed customer overdue out_of_stock declined payment_uncertain undeliverable carrier_silent"
    assert seen.keys() == {*endings.split()}


def test_a_key_is_retried_however_often_it_was_parked_before() -> None:
    assert broken_by(Stage(shop), ShopScenario, 2_534) is None, "one clock that is behind parks each input of a shelf"


@pytest.mark.slow
def test_the_shop_breaks_no_law_with_all_the_same_seeds() -> None:
    stage = Stage(shop)
    assert {broken_by(stage, ShopScenario, seed) for seed in range(SCHEDULES)} == {None}


def test_there_are_laws_of_every_kind_among_those_that_break() -> None:
    assert len(MUTANTS) > 30
    assert len({mutant.invariant for mutant in MUTANTS.values()}) >= 10
