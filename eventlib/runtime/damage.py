"""Inputs that are not what was written: they are parked as they stand, and never handled from what stands there."""

from collections.abc import Sequence

from eventlib.codec.port import UnknownSchema
from eventlib.errors import DamagedRecord, EventlibError
from eventlib.event import key_of
from eventlib.eventlog import EventLog
from eventlib.log.port import Log, Record
from eventlib.runtime.parking import original_of

DAMAGE = "damage"
"""The fact about a parked record that keeps it from being handled as it stands: why it is not what was written."""

_TYPES: tuple[type, ...] = (bytes, bytes, str, str, str, str, int, str, str, str)
_KEY, _HEADERS = 4, 14
_MOST = 1 << 62


def damaged_input(damaged: DamagedRecord, log: EventLog, at_ms: int) -> Record:
    """Return what is parked for a damaged record: its columns as they stand, as far as a record can have them.

    Its key is the record's own where a second column confirms it; else its place on the log, which is no event's key:
    it waits alone then, and holds up nothing.
    """
    place = damaged.topic, damaged.partition, damaged.offset
    found = Record(*place, at_ms, None, None)
    if isinstance(damaged.record, Record):
        pairs = zip(damaged.record[_KEY:_HEADERS], _TYPES, strict=True)
        columns = [value if _is_legible(value, kind) else None for value, kind in pairs]
        found = Record._make((*place, at_ms, *columns, ()))
    key = found.key
    if key is None or not _is_confirmed(found, log):
        key = "{}/{}/{}".format(*place).encode()
    return found._replace(key=key, headers=((f"parked_{DAMAGE}", str(damaged).encode("utf-8", "backslashreplace")),))


async def repaired_among(waiting: Sequence[Record], log: Log) -> dict[int, Record]:
    """Return the inputs that are parked because they were damaged, and stand on the log as written again.

    By the offsets of what is parked of them. Raises: LogUnavailable.
    """
    found = dict[int, Record]()
    for parked in waiting:
        written = await as_written(parked, log)
        if written is not None:
            found[parked.offset] = written
    return found


async def as_written(parked: Record, log: Log) -> Record | None:
    """Return the input that was parked because it was damaged, once the log has it as written again; else None."""
    facts, record = original_of(parked)
    if DAMAGE not in facts:
        return None
    try:
        found = await log.read(record.topic, record.partition, record.offset, 1)
    except DamagedRecord:
        return None
    return found[0] if found and found[0].offset == record.offset else None


def _is_legible(value: object, kind: type) -> bool:
    if not isinstance(value, kind):
        return False
    if isinstance(value, int):
        return 0 <= value < _MOST
    return not isinstance(value, str) or value.isprintable()


def _is_confirmed(found: Record, log: EventLog) -> bool:
    """Tell whether a record's key is also the one that its event, or its subject, has, and belongs in its partition."""
    key, topic = found.key or b"", next((t for t in log.choreography.topics if t.name == found.topic), None)
    if topic is None or topic.partition_of(key) != found.partition:
        return False
    if (found.subject or "").encode() == key:
        return True
    try:
        event = log.decode(found)
    except (EventlibError, UnknownSchema):
        return False
    return event is not None and (key_of(event) or "").encode() == key
