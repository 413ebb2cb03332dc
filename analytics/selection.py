"""Which records of a log are asked for."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TypedDict, Unpack

from eventlib.log.port import TopicPartition


class Only(TypedDict, total=False):
    """What narrows a log: topics and event types by name, times in UTC, offsets by (topic, partition).

    `since` and `begin` are the first that are taken, `until` and `end` the first that are not. A partition that `end`
    does not name is read up to its end as of now.
    """

    topics: Sequence[str]
    types: Sequence[str]
    since: datetime | None
    until: datetime | None
    begin: Mapping[TopicPartition, int]
    end: Mapping[TopicPartition, int]


@dataclass(frozen=True)
class Selection:
    """What `Only` says, with all that it leaves open; no topics or types are all of them."""

    topics: Sequence[str] = ()
    types: Sequence[str] = ()
    since: datetime | None = None
    until: datetime | None = None
    begin: Mapping[TopicPartition, int] = field(default_factory=dict)
    end: Mapping[TopicPartition, int] = field(default_factory=dict)

    @classmethod
    def of(cls, **only: Unpack[Only]) -> "Selection":
        """Return a selection."""
        return cls(**only)

    def span(self, place: TopicPartition, start: int, end: int) -> range | None:
        """Return what is asked for of a partition's offsets from `start` and before `end`; None when nothing is."""
        if self.topics and place[0] not in self.topics:
            return None
        span = range(max(start, self.begin.get(place, start)), min(end, self.end.get(place, end)))
        return span or None
