"""Replays a log: what each task did, from its journal, and what the current code would have done.

It knows the records that the runtime writes, and decides by the same model. Begin with `steps`, then `player`.
"""

from eventlib.replay.comparison import Change
from eventlib.replay.key_history import history
from eventlib.replay.partition_buffer import Shard
from eventlib.replay.point_in_time import state_at
from eventlib.replay.replaying import replay
from eventlib.replay.report import Difference, Report
from eventlib.replay.steps import HistoryStep
from eventlib.replay.stuck_sagas import PreflightReport, gate

__all__ = [
    "Change",
    "Difference",
    "HistoryStep",
    "PreflightReport",
    "Report",
    "Shard",
    "gate",
    "history",
    "replay",
    "state_at",
]
