"""The shop's tables, rebuilt from its log: in full or incrementally, once or continuously."""

from analytics.rebuilding.following import Following, Increment, follow
from analytics.rebuilding.rebuild import How, Rebuilt, rebuild
from analytics.rebuilding.versions import TABLES, tables

__all__ = ["TABLES", "Following", "How", "Increment", "Rebuilt", "follow", "rebuild", "tables"]
