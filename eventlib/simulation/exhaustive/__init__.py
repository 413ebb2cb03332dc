"""Exhaustive exploration of a small case: all interleavings of its tasks, and all answers of the external systems."""

from eventlib.simulation.exhaustive.explore import Explored, explore

__all__ = ["Explored", "explore"]
