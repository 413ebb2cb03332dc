"""The tables of a log, rebuilt: in full or incrementally, once or continuously."""

from analytics.rebuilding.facts import facts_of
from analytics.rebuilding.following import Following, Increment, follow
from analytics.rebuilding.rebuild import How, Rebuilt, rebuild
from analytics.stores import tables

__all__ = ["Following", "How", "Increment", "Rebuilt", "facts_of", "follow", "rebuild", "tables"]
