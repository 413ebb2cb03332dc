"""Inflating what others have compressed, with a bound on what comes of it: a few kilobytes can become gigabytes."""

import zlib

_EITHER = 47  # the header says whether it is gzip's form or zlib's


class TooLarge(ValueError):
    """More bytes than are taken come of what was compressed."""


class Inflating:
    """Inflates one stream of gzip or zlib, a piece after the other.

    Guarantee: holds one byte more than it has left, at most. Raises: TooLarge; zlib.error for what is damaged or cut.
    """

    def __init__(self, most_bytes: int) -> None:
        self._left = most_bytes
        self._stream = zlib.decompressobj(_EITHER)

    def take(self, piece: bytes) -> bytes:
        """Return what comes of the next piece."""
        made = self._stream.decompress(piece, self._left + 1)
        self._left -= len(made)
        if self._left < 0:
            raise TooLarge("more than was asked for")
        return made

    def end(self) -> None:
        """Check that it is whole."""
        if not self._stream.eof:
            raise zlib.error("the compressed data is cut off")


def inflate(data: bytes, most_bytes: int) -> bytes:
    """Return the content of gzip's or zlib's data. Raises: as `Inflating` does."""
    stream = Inflating(most_bytes)
    found = stream.take(data)
    stream.end()
    return found
