"""Which records of a log are asked for."""

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True)
class Selection:
    """Topics and event types by name (all when empty), and times (UTC; from `since`, before `until`)."""

    topics: tuple[str, ...] = ()
    types: tuple[str, ...] = ()
    since: datetime | None = None
    until: datetime | None = None
