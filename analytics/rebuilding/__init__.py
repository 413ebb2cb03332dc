"""The shop's tables, rebuilt from its log: all of it, or only what is new, once or for as long as they are to be current."""

from analytics.rebuilding.following import Following, Increment, follow
from analytics.rebuilding.rebuild import How, Rebuilt, rebuild
from analytics.rebuilding.versions import TABLES, tables

__all__ = ["TABLES", "Following", "How", "Increment", "Rebuilt", "follow", "rebuild", "tables"]
