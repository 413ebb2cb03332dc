"""The shop's tables, rebuilt from its log: all of it, or only what is new."""

from analytics.rebuilding.rebuild import How, Rebuilt, rebuild
from analytics.rebuilding.versions import TABLES, tables

__all__ = ["TABLES", "How", "Rebuilt", "rebuild", "tables"]
