"""What is told of one thing that a decider handled."""

from collections.abc import Sequence
from typing import NamedTuple

from eventlib.log.port import Record


class Hop(NamedTuple):
    """One thing that a decider handled: an input, an effect's answer, or a deadline.

    `context` is the trace context that it belongs to, `said` what followed from it. `record` is the input, or None for
    a deadline, whose name is `deadline`, and for an answer. `failure` is why it was parked.
    """

    decider: str
    key: str
    context: str | None
    began_ns: int
    ended_ns: int
    said: Sequence[Record] = ()
    record: Record | None = None
    deadline: str = ""
    failure: str = ""
