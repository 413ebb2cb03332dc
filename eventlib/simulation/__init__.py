"""What a scenario for `eventlib simulate` is written with."""

from eventlib.simulation.scenario import Choices, Scenario, SmallCase

__all__ = [
    "Choices",
    "Scenario",
    "SmallCase",
]
