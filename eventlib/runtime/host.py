"""What a process gives to every task that it runs, and how it uses its machine."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated

from pydantic import Field

from eventlib.eventlog import EventLog
from eventlib.runtime.breaker import Breaker, BreakerConfig
from eventlib.runtime.observing import Observer
from eventlib.store.port import Stores

Count = Annotated[int, Field(ge=1)]
Seconds = Annotated[float, Field(ge=0, allow_inf_nan=False)]


@dataclass(frozen=True, slots=True)
class RuntimeConfig:
    """How a runtime uses its machine; the defaults suit one machine.

    `batch` is how many inputs a transaction takes at most, `cached_entries` how many states a process keeps decoded, each
    of its services' tasks an equal share (about 1 kB each: those of all that is under way are worth their place),
    `pending_effects` how many requests a task leaves open before it takes no more input, `concurrent_effects` how
    many attempts a service has out at once, `grace_s` how long a stopping service waits for attempts that are out.
    `breaker_failures` in a row stop the calls to a port (0: they never do), for `breaker_pause_s` seconds at first,
    and for `breaker_longest_pause_s` at most when it stays away; requests wait meanwhile, and use up no attempts.
    `state_dir` is where local stores are kept when the log is not a file on this machine. `standbys` other processes
    keep a copy of each task then, so that a takeover is quick; what is read for that costs each of them some 20 us a
    state.
    """

    batch: Count = 500
    cached_entries: Count = 80_000
    pending_effects: Count = 500
    concurrent_effects: Count = 200
    grace_s: Seconds = 5.0
    restore_chunk: Count = 2_000
    skipped_inputs: Count = 5_000
    retry_pause_s: Seconds = 0.2
    flush_s: Seconds = 5.0
    breaker_failures: Annotated[int, Field(ge=0)] = 20
    breaker_pause_s: Seconds = 1.0
    breaker_longest_pause_s: Seconds = 5.0
    state_dir: str = "var/state"
    standbys: Annotated[int, Field(ge=0)] = 0

    def breaker(self, port: str) -> Breaker:
        """Return a new circuit breaker for a port."""
        return Breaker(port, BreakerConfig(self.breaker_failures, self.breaker_pause_s, self.breaker_longest_pause_s))


@dataclass(slots=True)
class Restoring:
    """How far a task that is being restored has come with its changelog: from `began` via `at` to `end`, as offsets."""

    began: int
    at: int
    end: int


@dataclass(frozen=True, slots=True)
class Host:
    """What a process gives to every task that it runs; `cached_entries` is a task's share."""

    log: EventLog
    stores: Stores
    ports: Mapping[str, object]
    breakers: Mapping[str | None, Breaker]
    config: RuntimeConfig
    code_version: str
    observer: Observer | None = None
    cached_entries: int = 1_000
    restoring: dict[tuple[str, int], Restoring] = field(default_factory=dict)
