"""A record of the log."""

from typing import Any, Final, final

from eventlib.model.event import NO_HEADERS, Meta, of_fields
from eventlib.values import from_ms

RECORD_FIELDS: Final = (
    "topic",
    "partition",
    "offset",
    "timestamp_ms",
    "key",
    "value",
    "id",
    "type",
    "source",
    "subject",
    "sequence",
    "correlation_id",
    "causation_id",
    "traceparent",
    "headers",
)
"""The names of a record's fields, in their order."""


@final
class Record:
    """A record of the log: key and value as bytes, and the CloudEvents attributes of its event.

    A log that has only headers (Kafka) writes the attributes as `ce_…` headers and `traceparent`; `headers` holds all
    others. A `value` of None is a tombstone. An `offset` of -1 is for the log to assign: the record itself gets it once it
    was appended, which saves a copy of each. Nothing else of a record ever changes; `replace` returns another.
    """

    __slots__ = RECORD_FIELDS

    def __init__(  # noqa: PLR0913, PLR0917  made by the thousand: what a dataclass would make is slower, compiled
        self,
        topic: str,
        partition: int,
        offset: int,
        timestamp_ms: int,
        key: bytes | None,
        value: bytes | None,
        id: str | None = None,  # noqa: A002  the field has this name
        type: str | None = None,  # noqa: A002  this one, too
        source: str | None = None,
        subject: str | None = None,
        sequence: int | None = None,
        correlation_id: str | None = None,
        causation_id: str | None = None,
        traceparent: str | None = None,
        headers: tuple[tuple[str, bytes], ...] = (),
    ) -> None:
        self.topic = topic
        self.partition = partition
        self.offset = offset
        self.timestamp_ms = timestamp_ms
        self.key = key
        self.value = value
        self.id = id
        self.type = type
        self.source = source
        self.subject = subject
        self.sequence = sequence
        self.correlation_id = correlation_id
        self.causation_id = causation_id
        self.traceparent = traceparent
        self.headers = headers

    @property
    def event_id(self) -> str:
        """The event's id; a record without one (of an external producer) gets its topic, partition and offset."""
        return self.id or f"{self.topic}/{self.partition}/{self.offset}"

    @property
    def topic_partition(self) -> tuple[str, int]:
        """The topic and the partition that it is in."""
        return self.topic, self.partition

    @property
    def location(self) -> tuple[str, int, int]:
        """Where it is on the log: topic, partition and offset."""
        return self.topic, self.partition, self.offset

    def placed(self, offset: int) -> "Record":
        """Return the record with the offset that the log has assigned: itself, or a copy where it has one already."""
        if self.offset == -1:
            self.offset = offset
        if self.offset == offset:
            return self
        return Record(
            self.topic,
            self.partition,
            offset,
            self.timestamp_ms,
            self.key,
            self.value,
            self.id,
            self.type,
            self.source,
            self.subject,
            self.sequence,
            self.correlation_id,
            self.causation_id,
            self.traceparent,
            self.headers,
        )

    def replace(self, **changes: Any) -> "Record":
        """Return the record with other values of some fields. Raises: TypeError for a field that it has not."""
        return Record(**(self.asdict() | changes))

    def asdict(self) -> dict[str, Any]:
        """Return its fields by their names."""
        return dict(zip(RECORD_FIELDS, self.astuple(), strict=True))

    def astuple(self) -> tuple[Any, ...]:
        """Return its fields in their order, `RECORD_FIELDS`."""
        return (
            self.topic,
            self.partition,
            self.offset,
            self.timestamp_ms,
            self.key,
            self.value,
            self.id,
            self.type,
            self.source,
            self.subject,
            self.sequence,
            self.correlation_id,
            self.causation_id,
            self.traceparent,
            self.headers,
        )

    def meta(self) -> Meta:
        """Return the metadata of the event in this record."""
        event_id = self.id or self.event_id
        values = (
            event_id,
            self.topic,
            self.partition,
            self.offset,
            from_ms(self.timestamp_ms),
            self.correlation_id or event_id,
            self.causation_id,
            self.source or "",
            self.subject or "",
            self.sequence,
            self.traceparent,
            dict(self.headers) if self.headers else NO_HEADERS,
        )
        return of_fields(Meta, values)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Record) and self.astuple() == other.astuple()

    def __hash__(self) -> int:
        return hash(self.astuple())

    def __reduce__(self) -> tuple[Any, ...]:
        return Record, self.astuple()

    def __repr__(self) -> str:
        return f"Record({', '.join(f'{name}={value!r}' for name, value in self.asdict().items())})"


def key_text(record: Record) -> str:
    """Return a record's key as text; bytes that are not UTF-8 are escaped."""
    key = record.key
    if key is None:
        return ""
    try:
        return key.decode()
    except UnicodeDecodeError:
        return text_of(key)


def text_of(key: bytes) -> str:
    """Return a key as text; bytes that are not UTF-8 are escaped."""
    try:
        return key.decode()
    except UnicodeDecodeError:
        return key.decode("utf-8", "backslashreplace")
