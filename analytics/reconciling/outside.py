"""What an application declares to have compared with its log: an API of its own, and books of the outside world."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from pyspark.sql import SparkSession

from analytics.reconciling.difference import Compared, Difference
from eventlib.model.event import Event

Row = Mapping[str, object]
"""Fields by name: texts, numbers, times in UTC."""


@dataclass(frozen=True)
class Cut:
    """A service's cursors in a task: the next offset of each input, and the time of its last transaction (ms)."""

    next: Mapping[str, int]
    at_ms: int


class Api(Protocol):
    """A running API of an application, which tells the position of its answers."""

    def rows(self) -> Iterator[tuple[str, Row]]:
        """Yield every row of the list, with its key. Raises: LogUnavailable, ContractError."""

    def row(self, key: str, min_position: str | None) -> tuple[Row | None, str]:
        """Return a row at or after a position, None if there is none, and the position in the answer."""


@dataclass(frozen=True)
class LiveApi:
    """How an API's rows are compared with those that follow from the log.

    `service` is the one that answers, `request` an event that it consumes: positions count these. `is_final` tells that a
    row will not change any more; `seen` is the value of a field that is compared, and `shown` a row in few words.
    """

    table: str
    service: str
    request: type[Event]
    fields: tuple[str, ...]
    connect: Callable[[str], AbstractContextManager[Api]]
    is_final: Callable[[Row], bool]
    seen: Callable[[str, Row], object]
    shown: Callable[[Row], str]


@dataclass(frozen=True)
class LiveBooks:
    """How books of the outside world, kept in a file, are compared with the log: read first, and compared afterwards."""

    read: Callable[[Path], Any]
    compare: Callable[[Path, Any, Mapping[str, Row]], tuple[Compared, list[Difference]]]


@dataclass(frozen=True)
class Outside:
    """What of the outside world an application has compared with its log, and the rows that should be there.

    `expected` returns rows by key according to the log: as of its end, or with cuts only of these keys, each as of its cut
    (None: the end). An application's package (`Choreography(analytics=…)`) has one of these.
    """

    expected: Callable[[SparkSession, str, Mapping[str, Cut | None] | None], Mapping[str, Row]]
    api: LiveApi | None = None
    ledger: LiveBooks | None = None
