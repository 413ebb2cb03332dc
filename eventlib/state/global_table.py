"""A full, read-only copy of a compacted topic in this process."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar

from eventlib.errors import ContractError, EventlibError, WiringError
from eventlib.eventlog import EventLog
from eventlib.ground.arguments import A_LOG, AN_EVENT, check, check_class
from eventlib.model.event import Event, Position, contract_of
from eventlib.model.record import Record
from eventlib.model.topic import Topic
from eventlib.state.topic_copy import TopicCopy

E = TypeVar("E", bound=Event)


class GlobalTable(Mapping[str, E]):
    """The newest event of each key, by key: `async with GlobalTable(log, ProductListed) as products: products["A1"]`.

    It copies `<topic>.latest`, or a topic that is compacted itself, and follows it; a tombstone removes its key, and
    so does a newest event of another type. It holds encoded bytes, some 130 more than they are for each key, and
    decodes on access. Iterating walks over the keys as of then: use `get` where the log may take one away meanwhile.
    With a `path` it is kept in that file as well, some minutes old at most and as of its end, and begins with that.
    Guarantee: once entered it has all that was on the topic before; later events follow within moments, those of a
    key in order. While the log is out of reach it stays as it is, and goes on after.
    Raises: WiringError for an event whose topic keeps no newest event of each key, and on access before it was entered;
    ContractError on access to a record that cannot be read, to a key that is not there while one of its partition is
    damaged, and on any access once the topic cannot be followed any more.
    """

    def __init__(self, log: EventLog, event_type: type[E], path: Path | str | None = None) -> None:
        check(log, EventLog, "log", A_LOG)
        check_class(event_type, Event, "event_type", AN_EVENT)
        self._log = log
        self._event_type = event_type
        self._topic = _compacted(event_type)
        self._copy = TopicCopy(log, self._topic, event_type, path)

    async def __aenter__(self) -> Self:
        """Read all that is on the topic, and follow it from there."""
        await self._copy.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Stop following; what was read stays readable."""
        await self._copy.close()

    async def reached(self, position: Position) -> None:
        """Wait until the table has seen what stands at a position of its topic, as `publish` returns it.

        Give it a time limit of your own, for instance `async with asyncio.timeout(5)`.
        Raises: ContractError for a position in another topic, and when the topic cannot be followed any more.
        """
        if position.topic == self._topic.name:
            offset = position.offset + 1
        elif position.topic == contract_of(self._event_type).topic.name:
            offset = await self._log.port.decided_end(
                self._topic.name, position.partition
            )  # written with the event itself, so it is before that
        else:
            raise ContractError(f"{position.topic} is not the topic of this table, which is {self._topic.name}")
        await self._copy.reached(position.partition, offset)

    def __getitem__(self, key: str) -> E:
        value = self._copy.value(_encoded(key))
        if value is None:
            raise KeyError(key)
        record = Record(self._topic.name, 0, -1, 0, key.encode(), value, type=self._event_type.__name__)
        try:
            event = self._log.decode(record)
        except EventlibError as error:
            reason = getattr(error, "reason", None) or str(error)
            raise ContractError(f"{key!r} in {self._topic.name} cannot be read: {reason}") from error
        assert isinstance(event, self._event_type)  # noqa: S101  the record says so
        return event

    def __contains__(self, key: object) -> bool:
        self._copy.refuse_stale()
        return isinstance(key, str) and self._copy.value(_encoded(key)) is not None

    def __len__(self) -> int:
        return len(self._copy.values)

    def __iter__(self) -> Iterator[str]:
        return iter([key.decode() for key in self._copy.values])


def _encoded(key: str) -> bytes:
    return key.encode("utf-8", "surrogatepass")  # what is no UTF-8 is no key here


def _compacted(event_type: type[Event]) -> Topic:
    topic = contract_of(event_type).topic
    if topic.latest:
        return topic.latest_topic
    if topic.compacted:
        return topic
    raise WiringError(
        f"topic {topic.name!r} of {event_type.__name__} keeps no newest event of each key: declare it as "
        f"Topic({topic.name!r}, latest=True)"
    )
