"""Reconciliation: the live state compared with the state that follows from the log."""

from analytics.reconciling.difference import Compared, Difference, compared_of
from analytics.reconciling.http import ApiClient
from analytics.reconciling.outside import Cut, LiveApi, LiveBooks, Outside, Row
from analytics.reconciling.reconcile import Reconciled, ReconcileOptions, reconcile

__all__ = [
    "ApiClient",
    "Compared",
    "Cut",
    "Difference",
    "LiveApi",
    "LiveBooks",
    "Outside",
    "ReconcileOptions",
    "Reconciled",
    "Row",
    "compared_of",
    "reconcile",
]
