"""The index of a log: one file of tables that search, SQL and the console ask, kept up to date from the log."""

from collections.abc import Collection
from pathlib import Path

from eventlib.eventlog import EventLog
from eventlib.ground.arguments import A_LOG, check
from eventlib.index.fold import IndexFold
from eventlib.index.schema import CAUSES
from eventlib.log.base import TopicPartition
from eventlib.queries.projection import Projection


class LogIndex(Projection):
    """The tables of a log, up to date as far as `topics` are concerned (None: all that it has something of).

    With `is_typed` it has those of events' and states' own fields, too; a file that has got them keeps them.
    Raises: WiringError for a choreography whose tables would have one name, or that declares what cannot be searched.
    """

    def __init__(
        self,
        log: EventLog,
        *,
        path: Path | str | None = None,
        topics: Collection[str] | None = None,
        is_typed: bool = False,
    ) -> None:
        check(log, EventLog, "log", A_LOG)
        view = IndexFold(log).view()
        super().__init__(log, (view.wider or view) if is_typed else view, path, topics=topics)

    def index_causes(self) -> None:
        """Make what finds an event by its cause, if it is not there yet: only questions in SQL need that."""
        self.db.executescript(CAUSES)

    def events_of(self, saga: str) -> list[tuple[str, int, int]]:
        """Return the topic, partition and offset of each event of a saga, in the order in which they came here."""
        question = 'SELECT topic, partition, "offset" FROM _events WHERE saga = ? ORDER BY n'
        return [(topic, partition, offset) for topic, partition, offset in self.rows(question, (saga,))]

    @property
    def read_positions(self) -> dict[TopicPartition, int]:
        """The next offset of each partition that it reads; the file may have those of others, as another reader left them."""
        return {place: offset for place, offset in sorted(self.positions.items()) if place[0] in self._topics}
