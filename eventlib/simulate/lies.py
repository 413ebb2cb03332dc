"""What a disk may say instead of what was written, and the checks that a log holds it to."""

from enum import Enum
from functools import partial
from typing import Any

from eventlib.errors import DamagedRecord
from eventlib.log.checksum import corrected, partition_seed, record_checksum, row_checksum
from eventlib.log.port import Record
from eventlib.log.record_headers import decode_headers, encode_headers
from eventlib.log.rules import NO_RECORD, why_changed

_VALUE = 2  # among a record's columns


class Lie(Enum):
    """How a record's bytes are not what was written."""

    FLIP = "one bit of it flips"
    TORN = "the second half of its page was never written"
    MISDIRECTED = "its place has another record's bytes"
    GONE = "it is gone"


def checked(written: Record, lie: Lie, other: Record, bit: int) -> Record:
    """Return what a log makes of a record about which a disk lies; `other` is what stands elsewhere.

    Raises: DamagedRecord where the checksum does not prove what was written.
    """
    place = written[:3]
    resume_at = written.offset + 1
    if lie is Lie.GONE:
        raise DamagedRecord(NO_RECORD, *place, resume_at)
    checksum_of = partial(row_checksum, partition_seed(*place[:2]), written.offset)
    columns, checksum = _lied(written, lie, other, bit), record_checksum(written)
    if checksum_of(columns) != checksum:
        found = corrected(columns, checksum, checksum_of)
        if found is None:
            stands = _record(place, columns)
            raise DamagedRecord(why_changed(checksum), *place, resume_at, stands)
        columns = found
    return _record(place, columns)


def _lied(written: Record, lie: Lie, other: Record, bit: int) -> tuple[Any, ...]:
    columns = [*written[3:14], encode_headers(written.headers)]
    value = written.value or b""
    match lie:
        case Lie.FLIP if value:
            place = bit // 8 % len(value)
            columns[_VALUE] = value[:place] + bytes((value[place] ^ 1 << bit % 8,)) + value[place + 1 :]
        case Lie.TORN if value:
            columns[_VALUE] = value[: len(value) // 2] + bytes(len(value) - len(value) // 2)
        case Lie.MISDIRECTED:
            columns = [*other[3:14], encode_headers(other.headers)]
        case _:
            pass
    return tuple(columns)


def _record(place: tuple[Any, ...], columns: tuple[Any, ...]) -> Record:
    return Record._make((*place, *columns[:-1], decode_headers(columns[-1])))
