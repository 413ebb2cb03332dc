"""Proof before a deployment: what a change of the code decides differently on what was recorded.

It knows replay, the simulator and the tests of deciders. Begin with `proving`.
"""

from eventlib.proof.bisecting import Bisected, bisect
from eventlib.proof.differing import Changed, Diff, DifferenceGroup, Signature, Total
from eventlib.proof.diffing import Versions, diff
from eventlib.proof.expected import Expected
from eventlib.proof.revisions import Commit

__all__ = [
    "Bisected",
    "Changed",
    "Commit",
    "Diff",
    "DifferenceGroup",
    "Expected",
    "Signature",
    "Total",
    "Versions",
    "bisect",
    "diff",
]
