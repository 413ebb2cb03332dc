"""The shop's tables, rebuilt from its log: all of it, or only what is new."""

from analytics.rebuilding.rebuild import Rebuilt, rebuild
from analytics.rebuilding.versions import TABLES, tables

__all__ = ["TABLES", "Rebuilt", "rebuild", "tables"]
