"""The public names for scenarios of `eventlib simulate`."""

from eventlib.simulation.scenario import Choices, Scenario, SmallCase

__all__ = [
    "Choices",
    "Scenario",
    "SmallCase",
]
