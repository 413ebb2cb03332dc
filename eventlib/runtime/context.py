"""The context that a process gives to each of its tasks."""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from eventlib.errors import DamagedRecord
from eventlib.eventlog import EventLog
from eventlib.ground.startup import Startup
from eventlib.model.record import Record
from eventlib.runtime.bootstrap import FirstServices
from eventlib.runtime.breaker import Breaker
from eventlib.runtime.config import RuntimeConfig
from eventlib.runtime.instrumentation import Observer
from eventlib.runtime.parking.causes import NewCauses
from eventlib.state.base import Stores

_log = logging.getLogger("eventlib.runtime")


@dataclass(slots=True)
class RestoreProgress:
    """The progress of a restore: changelog offsets `began`, `at` and `end`."""

    began: int
    at: int
    end: int


@dataclass(slots=True)
class Damage:
    """Damaged records that this process has read, by topic, partition and offset, with what was done about each.

    `stopped` has the tasks, by service and partition, that cannot continue; `tell` is called once for each record.
    """

    tell: Callable[[str], object] = _log.error
    met: dict[tuple[str, int, int], str] = field(default_factory=dict)
    stopped: dict[tuple[str, int], str] = field(default_factory=dict)

    def note(self, error: DamagedRecord, what: str) -> None:
        """Record a damaged record, and report it once."""
        place = error.topic, error.partition, error.offset
        if place not in self.met:
            self.tell(f"{error}: {what}")
        self.met[place] = f"{error}: {what}"


@dataclass(frozen=True, slots=True)
class RuntimeContext:
    """The context that the tasks of a process share; `cached_entries` is one task's share."""

    log: EventLog
    stores: Stores
    ports: Mapping[str, object]
    breakers: Mapping[str | None, Breaker]
    config: RuntimeConfig
    code_version: str
    observer: Observer | None = None
    cached_entries: int = 1_000
    restoring: dict[tuple[str, int], RestoreProgress] = field(default_factory=dict)
    startup: Startup = field(default_factory=Startup)
    damage: Damage = field(default_factory=Damage)
    causes: NewCauses = field(default_factory=NewCauses)
    rebuilt: dict[tuple[str, int], list[tuple[DamagedRecord, Sequence[Record]]]] = field(default_factory=dict)
    first_services: FirstServices = field(init=False)

    def __post_init__(self) -> None:
        """Let all tasks look once for what ran first on the log."""
        object.__setattr__(self, "first_services", FirstServices(self.log))
