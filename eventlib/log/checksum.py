"""Record checksums, and partition digests.

A record's checksum binds its contents to its topic, partition and offset: 63 bits of XXH3, so that it fits in a signed
database integer. The digest of a partition is the sum of its records' checksums (modulo 2**63): it changes when a
record is changed, swapped, added or removed, and stays valid when compaction and retention subtract what they drop.
Both detect accidents; neither is a signature, and both prove nothing against an attacker with write access to the file.

Source: Clarke et al., "Incremental Multiset Hash Functions" (2003), for the sum; https://xxhash.com for XXH3.
"""

from collections.abc import Callable, Sequence
from functools import lru_cache
from struct import error as StructError  # noqa: N812  a class, named like a value
from typing import Any

import msgspec.msgpack
from xxhash import xxh3_64_intdigest

from eventlib.log.rules import columns_of
from eventlib.model.record import Record

MASK = (1 << 63) - 1
encoded = msgspec.msgpack.Encoder().encode
"""Returns the columns of a record as MessagePack, of which its checksum is made."""


@lru_cache(maxsize=4_096)
def partition_seed(topic: str, partition: int) -> int:
    """Return the seed that binds checksums to a partition."""
    return xxh3_64_intdigest(f"{topic}/{partition}".encode())


def row_checksum(seed: int, offset: int, columns: Sequence[object]) -> int:
    """Return the checksum of a record from its columns: recorded_at, key, value, id … traceparent, headers as text.

    The hash input is MessagePack, which encodes each value with its type and length, so that a sequence of values has
    exactly one encoding.
    Raises: TypeError, ValueError for values that no record has.
    """
    return xxh3_64_intdigest(encoded(columns), seed ^ offset) >> 1


def content_checksum(seed: int, offset: int, content: bytes) -> int:
    """Return the checksum of a record from its columns, as `encoded` returns them."""
    return xxh3_64_intdigest(content, seed ^ offset) >> 1


def is_as_written(seed: int, offset: int, columns: Sequence[object], checksum: object) -> bool:
    """Whether a record's columns have this checksum; False if a column has an invalid type."""
    try:
        return row_checksum(seed, offset, columns) == checksum
    except (TypeError, ValueError, AttributeError):
        return False


def record_checksum(record: Record) -> int:
    """Return the checksum of a record at its topic, partition and offset."""
    return row_checksum(partition_seed(record.topic, record.partition), record.offset, columns_of(record))


def seal(*values: object) -> int:
    """Return the checksum of a small row: texts, numbers and None."""
    return xxh3_64_intdigest(repr(values).encode("utf-8", "surrogatepass")) >> 1


def seal_of(row: Sequence[object]) -> int:
    """Return the checksum of a small row, given as one sequence."""
    return seal(*row)


def value_checksum(partition: int, key: str, value: bytes) -> int:
    """Return the checksum of a value in a task's store."""
    return xxh3_64_intdigest(value, xxh3_64_intdigest(key.encode(), partition)) >> 1


def computed(row: tuple[Any, ...], checksum_of: Callable[[tuple[Any, ...]], int]) -> int:
    """Return the checksum of a row; -1, which no row has, if a value has an invalid type."""
    try:
        return checksum_of(row)
    except (TypeError, ValueError, AttributeError, StructError):
        return -1
