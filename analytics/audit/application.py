"""The application whose log is audited; Spark's workers load it by name, since functions cannot be sent."""

import asyncio
from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol, TypeVar

from pyspark.sql import Column
from pyspark.sql import functions as f

from analytics.audit.worker_settings import WorkerSettings, of_driver, take
from eventlib.command_line import load_choreography, nearest
from eventlib.eventlog import EventLog
from eventlib.model.choreography import Choreography
from eventlib.model.event import contract_of
from eventlib.opening import open_log

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
