"""Which connections a server takes: so many from one address, and so many in all."""

import logging
import sys
from collections import Counter
from collections.abc import Callable

from eventlib.ground.posix import resource
from eventlib.ground.url import is_loopback
from eventlib.http.limits import HttpLimits

_LOG = logging.getLogger("eventlib.http")
_MOST_DESCRIPTORS = 65_536
_OF_ADDRESS = 256
_RESERVED = 128
"""Descriptors, at least, for logs, stores and clients of the process, and for connections that are being refused."""


class Admission:
    """Counts the open connections of one server.

    Where all are taken, a new connection takes the room of one that waits for its client to send or to read: the one
    that waits longest, of the address that has most of them.
    Guarantee: descriptors that the process needs for its own files stay free.
    """

    def __init__(self, limits: HttpLimits) -> None:
        self.limits = limits
        descriptors = raised_descriptors()
        reserve = max(descriptors // 4, min(descriptors // 2, _RESERVED))
        self.most = min(limits.connections, descriptors - reserve)
        self._farewells = min(reserve // 8, 64)
        self._waiting: dict[str, dict[object, Callable[[], None]]] = {}
        self.open = 0
        self.refused = 0
        self._by_address = Counter[str]()

    def enter(self, address: str) -> bool:
        """Count a new connection; return whether it is within the limits. Every `enter` needs its `leave`."""
        self.open += 1
        self._by_address[address] += 1
        if self._by_address[address] <= self._most_of(address) and (self.open <= self.most or self._has_made_room()):
            return True
        self.refused += 1
        _LOG.warning("connection refused (503): %d are open, %d from its address", self.open, self._by_address[address])
        return False

    @property
    def has_room_for_farewell(self) -> bool:
        """Whether a refused connection may stay open until its client has read the refusal."""
        return self.open <= self.most + self._farewells

    def waits(self, address: str, connection: object, close: Callable[[], None]) -> None:
        """Note that a connection waits for its client to send or to read; `close` closes it."""
        self._waiting.setdefault(address, {})[connection] = close

    def is_busy(self, address: str, connection: object) -> None:
        """Note that a connection waits for its server, or is closed."""
        waiting = self._waiting.get(address, {})
        if waiting.pop(connection, None) is not None and not waiting:
            del self._waiting[address]

    def _has_made_room(self) -> bool:
        if not self._waiting:
            return False
        address = max(self._waiting, key=lambda each: len(self._waiting[each]))
        connection, close = next(iter(self._waiting[address].items()))
        self.is_busy(address, connection)
        close()
        return True

    def _most_of(self, address: str) -> int:
        most = self.limits.connections_per_address
        if most is None:
            if address == "" or is_loopback(address):
                return sys.maxsize
            most = _OF_ADDRESS
        return sys.maxsize if most >= self.limits.connections else min(most, max(1, self.most // 2))

    def leave(self, address: str) -> None:
        """Count a connection as closed."""
        self.open -= 1
        self._by_address[address] -= 1
        if not self._by_address[address]:
            del self._by_address[address]


def raised_descriptors() -> int:
    """Raise the number of files that this process may open as far as it may, and return it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    unlimited = resource.RLIM_INFINITY
    wanted = _MOST_DESCRIPTORS if hard == unlimited else min(hard, _MOST_DESCRIPTORS)
    if soft == unlimited or soft >= wanted:
        return _MOST_DESCRIPTORS if soft == unlimited else soft
    resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    return wanted
