"""Exhaustive exploration of a small case: all interleavings of its tasks, and all answers of the external systems."""

from eventlib.simulation.exhaustive.explore import Bounds, Explored, explore

__all__ = ["Bounds", "Explored", "explore"]
