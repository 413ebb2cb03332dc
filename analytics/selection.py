"""Which records of a log are asked for."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TypedDict, Unpack

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from eventlib.errors import WiringError
from eventlib.log.base import TopicPartition


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

    def __post_init__(self) -> None:
        """Refuse times that could be anybody's. Raises: WiringError."""
        for name, at in (("since", self.since), ("until", self.until)):
            if at is not None and at.tzinfo is None:
                raise WiringError(f"{name}={at} has no time zone: give it one, such as {at.isoformat()}+00:00")

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


def narrowed(records: DataFrame, selection: Selection) -> DataFrame:
    """Return the records of the types and times that are asked for."""
    if selection.types:
        records = records.filter(f.col("type").isin(*selection.types))
    if selection.since is not None:
        records = records.filter(f.col("recorded_at") >= f.lit(selection.since))
    if selection.until is not None:
        records = records.filter(f.col("recorded_at") < f.lit(selection.until))
    return records
