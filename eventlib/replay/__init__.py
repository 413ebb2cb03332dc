"""The past again: what each task did, from its journal; and what today's code would have done."""

from eventlib.replay.changes import Change
from eventlib.replay.gate import Gate, gate
from eventlib.replay.moments import state_at
from eventlib.replay.part import Part
from eventlib.replay.past import history
from eventlib.replay.replaying import replay
from eventlib.replay.report import Difference, Report
from eventlib.replay.steps import HistoryStep

__all__ = ["Change", "Difference", "Gate", "HistoryStep", "Part", "Report", "gate", "history", "replay", "state_at"]
