"""Proof before a deployment: what a change of the code decides differently on what was recorded."""

from eventlib.proof.differing import Changed, Diff, DifferenceGroup, Signature, Total
from eventlib.proof.diffing import Versions, diff
from eventlib.proof.expected import Expected

__all__ = ["Changed", "Diff", "DifferenceGroup", "Expected", "Signature", "Total", "Versions", "diff"]
