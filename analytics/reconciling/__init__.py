"""Reconciliation: the live state compared with the state that follows from the log."""

from analytics.reconciling.difference import Compared, Difference
from analytics.reconciling.reconcile import Reconciled, ReconcileOptions, reconcile

__all__ = ["Compared", "Difference", "ReconcileOptions", "Reconciled", "reconcile"]
