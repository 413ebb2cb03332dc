"""Avro's binary encoding of single values."""

from functools import lru_cache
from struct import Struct

NOTHING = b""
_SMALL = range(-64, 1 << 13)  # written out once: lengths, counts, branches, symbols, and most amounts
_LONGS = range(-(1 << 63), 1 << 63)
_LOW, _MORE = 0x7F, 0x80  # a varint's digit, and the bit that says that another one follows
_LONGEST_VARINT = 10


@lru_cache(maxsize=1_024)  # the large ones are times, and all that one transaction emits has one time
def _varint(value: int) -> bytes:
    if value not in _LONGS:
        raise OverflowError(f"{value:.3e} does not fit into 64 bits")
    zigzag = value << 1 if value >= 0 else ~(value << 1)
    digits = bytearray()
    while zigzag > _LOW:
        digits.append(zigzag & _LOW | _MORE)
        zigzag >>= 7
    digits.append(zigzag)
    return bytes(digits)


VARINTS = {value: _varint(value) for value in _SMALL}
"""What small ints and longs are written as: to look them up without a call of `long`."""


def long(value: int) -> bytes:
    """Return an int or long. Raises: OverflowError."""
    return VARINTS.get(value) or _varint(value)


def text(value: str) -> bytes:
    """Return a string. Raises: UnicodeEncodeError; AttributeError for what is none."""
    data = value.encode()
    length = len(data)
    return (VARINTS.get(length) or _varint(length)) + data  # not `long`: a call less, for most fields of most events


def blob(value: bytes) -> bytes:
    """Return bytes. Raises: TypeError for what is none."""
    if not isinstance(value, bytes | bytearray):
        raise TypeError(f"{value!r:.60} is not bytes")
    return long(len(value)) + value


def boolean(value: bool) -> bytes:
    """Return a boolean."""
    return b"\x01" if value else b"\x00"


double = Struct("<d").pack


def items(parts: list[bytes]) -> bytes:
    """Return an array, or a map of keys and values, whose parts are written already: one block, then the end."""
    return long(len(parts)) + NOTHING.join(parts) + b"\x00" if parts else b"\x00"


def long_at(data: bytes, at: int) -> tuple[int, int]:
    """Return the int or long at a position, and the position behind it. Raises: ValueError for bytes that are none."""
    value = shift = 0
    try:
        for _ in range(_LONGEST_VARINT):
            digit = data[at]
            at += 1
            value |= (digit & _LOW) << shift
            if digit < _MORE:
                return (value >> 1) ^ -(value & 1), at
            shift += 7
    except IndexError:
        raise ValueError("the bytes end within a number") from None
    raise ValueError(f"a number has more than {_LONGEST_VARINT} bytes")
