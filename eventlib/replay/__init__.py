"""The past again: what each task did, from its journal; and what today's code would have done."""

from eventlib.replay.part import Part
from eventlib.replay.replaying import replay
from eventlib.replay.report import Difference, Report

__all__ = ["Difference", "Part", "Report", "replay"]
