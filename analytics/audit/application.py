"""The application whose log is audited; Spark's workers load it by name, since functions cannot be sent."""

import asyncio
import os
from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeVar

from pyspark.sql import Column
from pyspark.sql import functions as f

from eventlib.command_line import load_choreography, nearest
from eventlib.eventlog import EventLog
from eventlib.model.choreography import Choreography
from eventlib.model.event import contract_of
from eventlib.opening import open_log

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


T = TypeVar("T")


class Run(Protocol):
    """Runs a coroutine until it is done."""

    def __call__(self, coro: Coroutine[Any, Any, T], /) -> T:
        """Return its result."""


@dataclass(frozen=True)
class Application:
    """A choreography by its name (`module:name`; None: as in the nearest pyproject.toml, searched from a directory)."""

    named: str | None = None
    directory: str = field(default_factory=lambda: str(Path.cwd()))

    @cached_property
    def choreography(self) -> Choreography:
        """The choreography. Raises: WiringError when there is none."""
        return load_choreography(self.named, Path(self.directory))

    def load(self) -> None:
        """Load the choreography now, before anything else begins. Raises: WiringError."""
        self.choreography  # noqa: B018  a property that is kept

    def __reduce__(self) -> tuple[Callable[..., "Application"], tuple[str | None, str, WorkerSettings]]:
        """Pickle only the name, since there may be no pyproject.toml at the destination, and what opens its log there."""
        return _at_a_worker, (self.named or nearest(Path(self.directory))[1], self.directory, of_driver())

    @property
    def topics(self) -> list[str]:
        """The topics of its events, without latest topics and external ones."""
        contracts = [contract_of(event) for event in self.choreography.events]
        return list(dict.fromkeys(each.topic.name for each in contracts if each.external is None))

    @property
    def story_field(self) -> str:
        """The field whose values are the keys of sagas: an order's, in a shop; empty where there is none."""
        return self.choreography.saga_field

    @property
    def sources(self) -> Mapping[str, str]:
        """The decider of each source (`service/decider`)."""
        return {
            f"{service.emits_as}/{decider.name}": decider.name
            for service in self.choreography.services
            for decider in service.deciders
        }

    def story(self) -> Column:
        """Return the saga that a record belongs to, by its topic's key, or that of its emitter."""
        name = self.story_field
        keyed = [contract_of(e).topic.name for e in self.choreography.events if contract_of(e).key == name]
        saying = [source for source, decider in self.sources.items() if self.choreography.decider(decider).key == name]
        by_source = f.when(f.col("source").isin(saying), f.col("subject"))
        return f.coalesce(f.when(f.col("topic").isin(keyed), f.col("key")).otherwise(by_source), f.lit(""))

    @contextmanager
    def opened(self, url: str) -> Iterator[EventLog]:
        """Open a log for reading, for code that is not async."""
        with self.running(url) as (log, _):
            yield log

    @contextmanager
    def running(self, url: str) -> Iterator[tuple[EventLog, Run]]:
        """Open a log for reading; the yielded function runs a coroutine until it is done."""
        with asyncio.Runner() as runner:
            opening = open_log(url, self.choreography, read_only=True)
            log = runner.run(opening.__aenter__())
            try:
                yield log, runner.run
            finally:
                runner.run(opening.__aexit__(None, None, None))


def _at_a_worker(named: str | None, directory: str, settings: WorkerSettings) -> Application:
    take(settings)
    return Application(named, directory)
