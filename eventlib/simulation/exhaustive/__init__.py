"""Every order of things in a small case: all interleavings of its tasks, and all that the outside may answer."""

from eventlib.simulation.exhaustive.explore import Explored, explore

__all__ = ["Explored", "explore"]
