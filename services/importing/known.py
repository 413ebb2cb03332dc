"""An import's knowledge of each order of its file, in a few dozen bytes per order."""

from array import array
from enum import IntFlag
from hashlib import blake2b

_FIELDS = 3
_MOST_FILLED = 0.6
_FLAG_BITS = 8
_FIRST_SLOTS = 1_024


class Known(IntFlag):
    """What is known of an order."""

    READ = 1
    """The second pass has read it."""
    PLACED = 2
    """The log has it, with this content."""
    CONFLICT = 4
    """The log has another order under this id."""
    ENDED = 8
    """The log has its end."""


class KnownOrders:
    """A table from order id to a digest of the order's content, its units, and its `Known` flags.

    24 bytes a slot, at most 0.6 of the slots filled (40 to 80 bytes per order, whatever its size). Ids are compared by 64
    bits of their hash: for ten million orders the odds of a collision are 1 in 300,000.
    """

    def __init__(self) -> None:
        self._table = array("Q", bytes(8 * _FIELDS * _FIRST_SLOTS))
        self._slots = _FIRST_SLOTS
        self._count = 0

    def __len__(self) -> int:
        return self._count

    @property
    def bytes(self) -> int:
        """How much memory the table takes."""
        return self._table.itemsize * len(self._table)

    def add(self, order_id: str, content: int, units: int) -> bool:
        """Add an order; False when its id exists already, and then nothing is changed."""
        if self._count >= self._slots * _MOST_FILLED:
            self._grow()
        key = _key(order_id)
        at = self._find(key)
        if self._table[at]:
            return False
        self._table[at] = key
        self._table[at + 1] = content
        self._table[at + 2] = units << _FLAG_BITS
        self._count += 1
        return True

    def content(self, order_id: str) -> int | None:
        """Return the digest of an order's content, or None for an order that is not in the file."""
        at = self._find(_key(order_id))
        return self._table[at + 1] if self._table[at] else None

    def units(self, order_id: str) -> int:
        """Return an order's units; 0 for one that is not in the file."""
        return self._table[self._find(_key(order_id)) + 2] >> _FLAG_BITS

    def known(self, order_id: str) -> Known:
        """Return an order's flags; none for one that is not in the file."""
        return Known(self._table[self._find(_key(order_id)) + 2] & (1 << _FLAG_BITS) - 1)

    def learn(self, order_id: str, fact: Known) -> None:
        """Set a flag of an order of the file."""
        self._table[self._find(_key(order_id)) + 2] |= fact

    def _find(self, key: int) -> int:
        slot = key % self._slots
        while (found := self._table[slot * _FIELDS]) and found != key:
            slot = (slot + 1) % self._slots
        return slot * _FIELDS

    def _grow(self) -> None:
        before = self._table
        self._slots *= 2
        self._table = array("Q", bytes(8 * _FIELDS * self._slots))
        for at in range(0, len(before), _FIELDS):
            if before[at]:
                to = self._find(before[at])
                self._table[to : to + _FIELDS] = before[at : at + _FIELDS]


def _key(order_id: str) -> int:
    """Return an order id's hash, never 0: that marks a free slot."""
    return int.from_bytes(blake2b(order_id.encode(), digest_size=8).digest()) or 1
