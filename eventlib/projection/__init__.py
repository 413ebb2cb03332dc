"""Projections: what follows from a log, kept in a local SQLite file for questions that the log itself answers slowly."""

from eventlib.projection.projection import Projection, ProjectionBehind
from eventlib.projection.view import View
from eventlib.projection.waiters import Waiters

__all__ = ["Projection", "ProjectionBehind", "View", "Waiters"]
