"""The public names for scenarios of `eventlib simulate`."""

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
    __getattr__ = lazy(__name__, {"simulation.consumers": ["SimulatedConsumer"]})
