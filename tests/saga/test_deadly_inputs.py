"""Handlers and effects that take their process down, in simulated shops: each is parked, and everything comes to rest."""

from random import Random

import pytest

from eventlib.simulation.plan import Departure, Fault
from eventlib.simulation.scenario import drawn_from
from eventlib.simulation.schedule import Schedule
from eventlib.simulation.stage import Stage
from services import shop
from services.simulation.scenario import ShopScenario

SEEDS = {"handler": 11, "effect": 416}


@pytest.mark.parametrize("what", SEEDS)
def test_what_takes_its_process_down_alone_is_parked_at_the_third(what: str) -> None:
    schedule = Schedule(
        Stage(shop), ShopScenario(), 1 + SEEDS[what] % 3, drawn_from(Random(SEEDS[what])), keep_story=True
    )
    schedule.play()
    assert schedule.world.faults[Fault.DEADLY.value] == 1
    told = [line.what for line in schedule.story.told()]
    assert any(f"each {what} of" in each for each in told)
    assert sum(each == "takes its process down" for each in told) == 2 + 3  # the first two had more in hand


@pytest.mark.parametrize("step", [104, 108, 112, 119])
def test_an_effect_that_is_to_run_alone_is_not_forgotten_while_the_log_is_away(step: int) -> None:
    schedule = Schedule(Stage(shop), ShopScenario(), 1 + 416 % 3, drawn_from(Random(416)), keep_story=False)
    schedule.plan.faults.setdefault(step, []).append(Departure(step, Fault.AWAY, whom=0, how=0, long=8))
    schedule.play()
