"""Reconciliation: the live state against what the log says it should be."""

from analytics.reconciling.difference import Compared, Difference
from analytics.reconciling.reconcile import Reconciled, Wanted, reconcile

__all__ = ["Compared", "Difference", "Reconciled", "Wanted", "reconcile"]
