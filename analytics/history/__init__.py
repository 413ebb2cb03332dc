"""What was, for any choreography: states over time, effects, parked inputs and deadlines, folded from the journals."""

from analytics.history.fold import Cut, Fold, Positions
from analytics.history.tables import FoldTable

__all__ = ["Cut", "Fold", "FoldTable", "Positions"]
