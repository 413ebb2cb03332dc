"""Record batches: several records of one partition in one row, compressed.

A batch's row has the position of its last record: a scan from the offset of any of its records finds it first. Its
`value` is Zstandard of the MessagePack array `[offsets, records]`: how far each record is before the last one (null: they
have no gap), and each record's columns. `recorded_at` is the latest of its records', `sequence` the sum of their
checksums (modulo 2**63), and `headers` a JSON object with the number of records and of offsets, where a record has a JSON
array or none. The row's own checksum is over all of that, as a record's is.
"""

import threading
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Final

import msgspec.msgpack
from zstandard import ZstdCompressor, ZstdDecompressor, ZstdError, frame_content_size

from eventlib.log.checksum import MASK, content_checksum, encoded, row_checksum

Row = tuple[Any, ...]
"""A row of the table `records`: position, the record's columns, checksum."""

Content = tuple[tuple[Any, ...], int]
"""A record's columns, and its checksum."""

FEWEST: Final = 8
"""Fewer records of one transaction and partition are written as rows: a batch of them would save nothing."""
MOST: Final = 64
_MOST_BYTES = 1 << 16  # before compression: to read one record, all of its batch is inflated
_MOST_INFLATED = 2 * _MOST_BYTES  # damaged bytes could claim any size
_LEVEL = 1
_SEQUENCE: Final = -6
_BEGINS = '{"records":'
_SPANS = ',"offsets":'
_DENSE = b"\x92\xc0\xdc"  # an array of two: nil, and an array whose length follows in two bytes
_decode = msgspec.msgpack.Decoder(tuple[list[int] | None, list[tuple[Any, ...]]]).decode


class _Codecs(threading.local):
    """A thread's compressor and decompressor: they keep their memory, and cannot be shared."""

    def __init__(self) -> None:
        self.compress = ZstdCompressor(level=_LEVEL).compress
        self.decompress = ZstdDecompressor().decompress


_codecs = _Codecs()


def extent(headers: object) -> tuple[int, int]:
    """Return how many records a row with these headers has, and over how many offsets; (0, 0) if it is not a batch."""
    return _extent(headers) if isinstance(headers, str) and headers.startswith(_BEGINS) else (0, 0)


@lru_cache(maxsize=1_024)
def _extent(headers: str) -> tuple[int, int]:
    records, _, offsets = headers[len(_BEGINS) : -1].partition(_SPANS)
    return (int(records), int(offsets)) if records.isdecimal() and offsets.isdecimal() else (0, 0)


def checksums(row: Sequence[Any]) -> int:
    """Return the sum of the checksums of a row's records, 0 when it is damaged; the row may lack its first columns."""
    found = row[_SEQUENCE] if extent(row[-2])[0] else row[-1]
    return found if isinstance(found, int) else 0


def packed(seed: int, base: int, first: int, rows: Sequence[Content], contents: Sequence[bytes]) -> list[Row]:
    """Return the rows that hold records without a gap from position `first` on: batches where that pays.

    `contents` are the records' columns as `checksum.encoded` returns them.
    """
    found, start, count = list[Row](), 0, len(rows)
    while start < count:
        end = min(start + MOST, count)
        size = sum(map(len, contents[start:end]))
        while size > _MOST_BYTES:
            end -= 1
            size -= len(contents[end])
        if end - start < FEWEST:
            end = max(end, start + 1)
            found += in_rows(first + start, rows[start:end])
        else:
            content = b"".join((_DENSE, (end - start).to_bytes(2, "big"), *contents[start:end]))
            found.append(_batch(seed, base, (first + start, first + end - 1), rows[start:end], content))
        start = end
    return found


def in_rows(first: int, rows: Sequence[Content]) -> list[Row]:
    """Return the rows of records, each in one, without a gap from position `first` on."""
    return [(position, *columns, checksum) for position, (columns, checksum) in enumerate(rows, first)]


def repacked(seed: int, base: int, rows: Sequence[Row]) -> Row:
    """Return the one row of some records, which may have gaps between them; a single one's own."""
    if len(rows) == 1:
        return rows[0]
    first, last = rows[0][0], rows[-1][0]
    offsets = None if last - first == len(rows) - 1 else [last - row[0] for row in rows]
    of_records = [(row[1:-1], row[-1]) for row in rows]
    return _batch(seed, base, (first, last), of_records, encoded((offsets, [columns for columns, _ in of_records])))


def _batch(seed: int, base: int, span: tuple[int, int], rows: Sequence[Content], content: bytes) -> Row:
    first, last = span
    batch = (
        *(max([columns[0] for columns, _ in rows]), None, _codecs.compress(content), None, None, None, None),
        *(sum([checksum for _, checksum in rows]) & MASK, None, None, None),
        f"{_BEGINS}{len(rows)}{_SPANS}{last - first + 1}}}",
    )
    return (last, *batch, row_checksum(seed, last - base, batch))


def contents(last: int, value: bytes) -> tuple[Sequence[int], list[tuple[Any, ...]]]:
    """Return the positions, or offsets, of a batch's records, given the last one's, and their columns.

    Raises: ValueError when it is not a batch.
    """
    try:
        if not 0 <= frame_content_size(value) <= _MOST_INFLATED:
            raise ValueError("it has another size than any batch")
        before, records = _decode(_codecs.decompress(value))
    except (ZstdError, msgspec.DecodeError) as error:
        raise ValueError(f"it is not a batch of records: {error}") from error
    if before is None:
        return range(last - len(records) + 1, last + 1), records
    return [last - each for each in before], records


def unpacked(seed: int, base: int, row: Row) -> list[Row]:
    """Return the rows of a batch's records. Raises: ValueError when it is not a batch."""
    positions, records = contents(row[0], row[3])
    return [
        (position, *columns, content_checksum(seed, position - base, encoded(columns)))
        for position, columns in zip(positions, records, strict=True)
    ]
