"""Reads Avro's encodings of numbers, lengths and choices: of all rows of a batch at once, with NumPy."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
_MOST_BITS = 63


@dataclass
class Cursor:
    """Where each row of a batch is read next, where it ends, and whether it has been found to be damaged."""

    data: npt.NDArray[np.uint8]
    at: Ints
    end: Ints
    bad: npt.NDArray[np.bool_]

    def of(self, rows: Ints) -> "Cursor":
        """Return a cursor of some rows."""
        return Cursor(self.data, self.at[rows], self.end[rows], self.bad[rows])

    def go_on(self, rows: Ints, after: "Cursor") -> None:
        """Go on where a cursor of some rows is."""
        self.at[rows], self.bad[rows] = after.at, after.bad

    def number(self) -> Ints:
        """Read a number of each row, in Avro's zigzag of seven bits a byte."""
        byte = self._byte(self.at)
        self.at += 1
        found = byte & np.uint64(0x7F)
        more, bits = np.flatnonzero(byte & np.uint64(0x80)), 7
        while len(more) and bits <= _MOST_BITS:
            byte = self._byte(self.at[more])
            self.at[more] += 1
            found[more] |= (byte & np.uint64(0x7F)) << np.uint64(bits)
            more, bits = more[(byte & np.uint64(0x80)) != 0], bits + 7
        self.bad[more] = True
        return (found >> np.uint64(1)).view(np.int64) ^ -(found & np.uint64(1)).view(np.int64)

    def span(self) -> tuple[Ints, Ints]:
        """Read the length of bytes, and pass over them; return where they begin, and how many there are."""
        length = self.number()
        self._refuse((length < 0) | (length > self.end - self.at))
        start, length = self.at, np.where(self.bad, 0, length)
        self.at = start + length
        return start, length

    def items(self) -> Ints:
        """Read how many items follow in a block of an array."""
        count = self.number()
        with_size = np.flatnonzero(count < 0)
        if len(with_size):
            part = self.of(with_size)
            part.number()
            self.go_on(with_size, part)
        count = np.abs(count)
        self._refuse((count < 0) | (count > self.end - self.at))  # each has a byte at least
        return np.where(self.bad, 0, count)

    def fixed(self, size: int) -> npt.NDArray[np.uint8]:
        """Read so many bytes of each row."""
        found = self.data.take(self.at[:, None] + np.arange(size), mode="clip")
        self.at += size
        return found

    def which(self, count: int) -> Ints:
        """Read which of so many it is."""
        found = self.number()
        self._refuse((found < 0) | (found >= count))
        return np.where(self.bad, 0, found)

    def _byte(self, at: Ints) -> npt.NDArray[np.uint64]:
        return self.data.take(at, mode="clip").astype(np.uint64)  # a row that is read beyond its end is refused later

    def _refuse(self, wrong: npt.NDArray[np.bool_]) -> None:
        if wrong.any():
            self.bad |= wrong
