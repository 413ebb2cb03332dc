"""Which records of a log are selected."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TypedDict, Unpack

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from eventlib.errors import WiringError
from eventlib.log.base import TopicPartition


class Only(TypedDict, total=False):
    """A selection: topics and event types by name, times in UTC, offsets by (topic, partition).

    `since` and `begin` are inclusive, `until` and `end` exclusive. A partition that `end` does not name is read up to its
    current end.
    """

    topics: Sequence[str]
    types: Sequence[str]
    since: datetime | None
    until: datetime | None
    begin: Mapping[TopicPartition, int]
    end: Mapping[TopicPartition, int]


@dataclass(frozen=True)
class Selection:
    """`Only` with all its defaults; no topics or types mean all of them."""

    topics: Sequence[str] = ()
    types: Sequence[str] = ()
    since: datetime | None = None
    until: datetime | None = None
    begin: Mapping[TopicPartition, int] = field(default_factory=dict)
    end: Mapping[TopicPartition, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Refuse times without a zone. Raises: WiringError."""
        for name, at in (("since", self.since), ("until", self.until)):
            if at is not None and at.tzinfo is None:
                raise WiringError(f"{name}={at} has no time zone: give it one, such as {at.isoformat()}+00:00")

    @classmethod
    def of(cls, **only: Unpack[Only]) -> "Selection":
        """Return a selection."""
        return cls(**only)

    def span(self, place: TopicPartition, start: int, end: int) -> range | None:
        """Return the selected offsets of a partition from `start` and before `end`; None when there are none."""
        if self.topics and place[0] not in self.topics:
            return None
        span = range(max(start, self.begin.get(place, start)), min(end, self.end.get(place, end)))
        return span or None


def narrowed(records: DataFrame, selection: Selection) -> DataFrame:
    """Return the records of the selected types and times."""
    if selection.types:
        records = records.filter(f.col("type").isin(*selection.types))
    if selection.since is not None:
        records = records.filter(f.col("recorded_at") >= f.lit(selection.since))
    if selection.until is not None:
        records = records.filter(f.col("recorded_at") < f.lit(selection.until))
    return records
