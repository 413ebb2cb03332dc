"""What a scenario for `eventlib simulate` is written with."""

from eventlib.simulate.choices import Choices
from eventlib.simulate.scenario import Scenario, SmallCase

__all__ = [
    "Choices",
    "Scenario",
    "SmallCase",
]
