"""The shop's own tables and parts of the report."""

from services.analytics.parts import report

__all__ = ["report"]
