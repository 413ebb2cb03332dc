"""Scenarios of `eventlib simulate`: the world and the faults that a simulated run of services meets.

It knows the runtime, and puts a simulated log, clock and world beneath it. Begin with `world`.
"""

from typing import TYPE_CHECKING

from eventlib.ground.facade import lazy
from eventlib.simulation.scenario import Choices, Scenario, SmallCase

if TYPE_CHECKING:
    from eventlib.simulation.consumers import SimulatedConsumer

__all__ = [
    "Choices",
    "Scenario",
    "SimulatedConsumer",
    "SmallCase",
]

if not TYPE_CHECKING:
    __getattr__ = lazy(__name__)
