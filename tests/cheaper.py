"""What a run of the tests does once, or without, though the thing tested does it each time."""

import os
import ssl
from functools import cache
from pathlib import Path
from typing import Any

import httpx
import pytest
from httpx._transports import default as transports

_IN_MEMORY = Path("/dev/shm")  # noqa: S108  where Linux has it
_ENOUGH_BYTES = 8 << 30
_AUTHORITIES = ("SSL_CERT_FILE", "SSL_CERT_DIR")


def keep_files_in_memory() -> None:
    """Let `tmp_path` be in memory where that has room: hundreds of logs commit there, and each commit waits for a disk.

    Tests kill processes, not machines, so what a process has written is there all the same.
    """
    if _IN_MEMORY.is_dir() and min(_free_bytes(), _available_bytes()) >= _ENOUGH_BYTES:
        os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(_IN_MEMORY))


def _free_bytes() -> int:
    place = os.statvfs(_IN_MEMORY)
    return place.f_bavail * place.f_frsize


def _available_bytes() -> int:
    lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable"))


def read_authorities_once() -> None:
    """Share a context among HTTP clients that believe the public authorities: each reads these for 20 ms of a processor."""
    create = httpx.create_ssl_context

    @cache
    def usual(*_: str | None) -> ssl.SSLContext:
        return create()

    def shared(verify: Any = True, cert: Any = None, trust_env: bool = True) -> ssl.SSLContext:
        is_usual = verify is True and cert is None and trust_env
        return usual(*map(os.environ.get, _AUTHORITIES)) if is_usual else create(verify, cert, trust_env)

    pytest.MonkeyPatch().setattr(transports, "create_ssl_context", shared)  # until the process ends
