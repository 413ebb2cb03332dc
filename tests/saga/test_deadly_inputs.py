"""Handlers and effects that take their process down, in simulated shops: each is parked, and everything comes to rest."""

from random import Random

import pytest

from eventlib.simulation.plan import Fault
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
