"""The settings with which Spark's workers open a log: the driver's, on whatever machine a worker is."""

import os
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import NamedTuple

_PREFIXES = ("EVENTLIB_KAFKA_", "EVENTLIB_REGISTRY")
_STORE = frozenset({
    "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_REGION", "AWS_DEFAULT_REGION",
    "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3",
})  # fmt: skip
_FILES = frozenset({
    "EVENTLIB_KAFKA_TLS_CA", "EVENTLIB_KAFKA_TLS_CERT", "EVENTLIB_KAFKA_TLS_KEY", "EVENTLIB_REGISTRY_CA"
})  # fmt: skip
"""Variables that name a file: its content is sent, since a worker may not have the file."""

_taken = set[str]()


class WorkerSettings(NamedTuple):
    """Variables of the driver, and the contents of the files that some of them name."""

    values: Mapping[str, str]
    files: Mapping[str, bytes]


def of_driver() -> WorkerSettings:
    """Return the settings of this process; opening the log here has reported a file that cannot be read."""
    found = {name: value for name, value in os.environ.items() if name in _STORE or name.startswith(_PREFIXES)}
    files = {name: _content(found[name]) for name in _FILES & found.keys()}
    return WorkerSettings(found, {name: content for name, content in files.items() if content is not None})


def take(settings: WorkerSettings) -> None:
    """Set the driver's variables in this worker, and unset those that an earlier job has set.

    A worker serves jobs of several drivers' settings, one after another; variables of its own that no driver names stay.
    """
    for name in _taken - settings.values.keys():
        os.environ.pop(name, None)
        _taken.discard(name)
    for name, value in settings.values.items():
        wanted = value if name not in settings.files else _path_of(value, settings.files[name])
        if os.environ.get(name) != wanted:
            os.environ[name] = wanted
            _taken.add(name)


def _content(path: str) -> bytes | None:
    with suppress(OSError):
        return Path(path).read_bytes()
    return None


def _path_of(path: str, content: bytes) -> str:
    """Return the path of a file with a content: the driver's where it is here too, or one in this process's memory."""
    is_here = _content(path) == content or not hasattr(os, "memfd_create")
    return path if is_here else _in_memory(content)


@cache
def _in_memory(content: bytes) -> str:
    """Keep a content in a file that is on no disk, since it may be a key, and ends with this process."""
    handle = os.memfd_create("certificate")
    with os.fdopen(handle, "wb", closefd=False) as file:
        file.write(content)
    return f"/proc/self/fd/{handle}"
