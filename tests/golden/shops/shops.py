"""Shops' logs as commit b0c4a11 has written them, and what its commands printed of them.

`record.py` has made them. A log is unpacked for each test, on whose disk it may be changed.
"""

import gzip
import json
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from eventlib.devtools.kafka import Cluster
from eventlib.devtools.kafka.layout import Layout, choose_ports

PLACE = Path(__file__).parent
EMBEDDED, KAFKA = "embedded", "kafka"


def unpack_embedded(directory: Path) -> str:
    """Put the embedded log, and the ledger of its simulated outside world, into a directory; return its URL."""
    for name in ("shop.db", "shop.db.outside.db"):
        (directory / name).write_bytes(gzip.decompress((PLACE / f"{name}.gz").read_bytes()))
    return f"sqlite:///{directory / 'shop.db'}"


@contextmanager
def running_broker(directory: Path) -> Iterator[str]:
    """Start a broker on the data of the one that had the log, in a directory; give the log's URL."""
    with tarfile.open(PLACE / "broker.tar.xz") as packed:
        packed.extractall(directory, filter="data")
    layout = Layout.read(directory)
    assert layout is not None
    replace(layout, ports=choose_ports(layout.config)).write(directory)
    cluster = Cluster.open(directory)
    assert cluster is not None
    cluster.start()
    try:
        yield cluster.url
    finally:
        cluster.destroy()


@contextmanager
def golden_log(name: str, directory: Path) -> Iterator[str]:
    """Have a log in a directory, as it was recorded; give its URL."""
    if name == EMBEDDED:
        yield unpack_embedded(directory)
    else:
        with running_broker(directory / "broker") as url:
            yield url


def printed(log: str) -> dict[str, str]:
    """Return what each command printed of a log: of `eventlib`, `audit --json`, and `table NAME`, a row a line."""
    found: dict[str, str] = json.loads(gzip.decompress((PLACE / f"{log}.json.gz").read_bytes()))
    return found


def holds(then: Any, now: Any) -> bool:
    """Tell whether JSON still says all that it said; it may say more."""
    if isinstance(then, dict) and isinstance(now, dict):
        return all(name in now and holds(value, now[name]) for name, value in then.items())
    if isinstance(then, list) and isinstance(now, list):
        return len(then) == len(now) and all(map(holds, then, now))
    return bool(then == now)
