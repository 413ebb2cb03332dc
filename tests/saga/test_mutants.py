"""The simulator is worth something: each bug that is planted into the shop or the runtime breaks the law it has to."""

from random import Random

import pytest

from eventlib.simulate.choices import drawn_from
from eventlib.simulate.schedule import BrokenLaw, Schedule
from eventlib.simulate.stage import Stage
from services import shop
from services.simulation.scenario import ShopScenario
from tests.saga.mutant import Mutant
from tests.saga.mutants_of_runtime import RUNTIME
from tests.saga.mutants_of_services import SERVICES

MUTANTS = {**SERVICES, **RUNTIME}
SOON, IN_TIME = 300, 2_500
"""Of how many schedules one breaks the law: of most mutants' in seconds, of the rare ones' within a minute."""


def broken_by(stage: Stage, seed: int) -> str | None:
    try:
        Schedule(stage, ShopScenario(), 1 + seed % 3, drawn_from(Random(seed)), keep_story=False).play()
    except BrokenLaw as broken:
        return broken.breach.law.name
    return None


def orders_of_things() -> list[list[object]]:
    return [
        [*places]
        for service in shop.services
        for decider in service.deciders
        for places in (decider.handlers, decider.effects, decider.deadlines)
    ]


def _case(name: str) -> object:
    return pytest.param(MUTANTS[name], id=name, marks=[pytest.mark.slow] if MUTANTS[name].is_rare else [])


@pytest.mark.parametrize("mutant", [_case(name) for name in MUTANTS])
def test_a_planted_bug_breaks_its_law(mutant: Mutant) -> None:
    before = orders_of_things()
    with pytest.MonkeyPatch.context() as patch:
        mutant.plant(patch)
        stage = Stage(shop)
        seeds = range(IN_TIME if mutant.is_rare else SOON)
        assert any(broken_by(stage, seed) == mutant.law for seed in seeds), f"{mutant.law} holds in all of them"
    assert orders_of_things() == before, "what comes back in another order is another shop for the tests after"


def test_the_shop_breaks_no_law_with_the_same_seeds() -> None:
    stage = Stage(shop)
    assert {broken_by(stage, seed) for seed in range(SOON)} == {None}


@pytest.mark.slow
def test_the_shop_breaks_no_law_with_all_the_same_seeds() -> None:
    stage = Stage(shop)
    assert {broken_by(stage, seed) for seed in range(IN_TIME)} == {None}


def test_there_are_laws_of_every_kind_among_those_that_break() -> None:
    assert len(MUTANTS) > 30
    assert len({mutant.law for mutant in MUTANTS.values()}) >= 10
