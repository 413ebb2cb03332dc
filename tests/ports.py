"""Ports of the loopback interface that one test has to itself until it listens on them."""

import os
import random
import socket

from eventlib.devtools.kafka.config import HOST

_PORTS = range(10_000, 20_000)
"""Below the ports that the system gives to outgoing connections and to servers that ask for any port."""

_given = set[int]()


def free_port(count: int = 1) -> int:
    """Return the first of so many ports in a row; each process of a test run has its own share, and gives none twice."""
    number = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    share = len(_PORTS) // int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    own = _PORTS[number * share : (number + 1) * share]
    while True:
        first = random.choice(own[: 1 - count] if count > 1 else own)
        wanted = range(first, first + count)
        if _given.isdisjoint(wanted) and all(map(_is_free, wanted)):
            _given.update(wanted)
            return first


def _is_free(port: int) -> bool:
    with socket.socket() as tried:
        tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            tried.bind((HOST, port))
        except OSError:
            return False
    return True
