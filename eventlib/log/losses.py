"""Records that are gone before a reader has read them: each follower of a topic names them, and none is passed over in silence."""

import logging
from collections.abc import Mapping

from eventlib.log.base import Reader, TopicPartition

_log = logging.getLogger("eventlib.log")

RECREATED = "the topic was deleted and created again, and what it had is gone"


def warn_of_lost(reader: Reader, who: str) -> Mapping[TopicPartition, tuple[int, int]]:
    """Warn of what a reader could not read since the last call, and return it as `Reader.take_lost` does."""
    lost = reader.take_lost()
    for place, (first, to) in lost.items():
        warn_of_loss(who, place, first, to)
    return lost


def warn_of_loss(who: str, place: TopicPartition, first: int, to: int) -> str:
    """Warn that a follower continues at `to`, since `first` is not on the log; return the warning's sentence."""
    if first < to:
        what = f"offsets {first} to {to - 1} were dropped before they were read; it continues at {to}"
    else:
        what = f"it was at {first}, and the topic ends at {to}: records are missing at its end"
    sentence = f"{place[0]}/{place[1]}: {what}"
    _log.warning("%s: %s", who, sentence)
    return sentence
