"""The log decided again by other rules: whole sagas, in the recorded order, with the recorded answers."""

from analytics.whatif.figures import Figure
from analytics.whatif.hypothesis import Hypothesis
from analytics.whatif.rewriting import rewritten
from analytics.whatif.running import Outcome, what_if

__all__ = ["Figure", "Hypothesis", "Outcome", "rewritten", "what_if"]
