"""The settings of a runtime."""

from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from eventlib.runtime.breaker import Breaker, BreakerConfig

Count = Annotated[int, Field(ge=1)]
Seconds = Annotated[float, Field(ge=0, allow_inf_nan=False)]


@dataclass(frozen=True, slots=True)
class RuntimeConfig:
    """How a runtime uses its machine; each field with a description is a setting `EVENTLIB_…`. The defaults suit one machine."""

    batch: Annotated[Count, Field(description="the most inputs that a transaction takes")] = 500
    cached_entries: Annotated[
        Count, Field(description="states that a process keeps decoded, shared out among its tasks, about 1 kB each")
    ] = 80_000
    pending_effects: Annotated[
        Count, Field(description="open requests to the outside at which a task takes no more input")
    ] = 500
    waiting_effects: Annotated[
        Count, Field(description="requests waiting at limits at which a task takes no more input, about 0.3 kB each")
    ] = 50_000
    concurrent_effects: Annotated[Count, Field(description="the most attempts that a service has out at once")] = 200
    ahead_s: Annotated[
        Seconds,
        Field(
            description="how far ahead of the clock an input may be dated: one beyond it is parked, and no record beyond it "
            "is taken for the time (seconds)"
        ),
    ] = 300.0
    grace_s: Annotated[
        Seconds, Field(description="how long a stopping service waits for attempts that are out (seconds)")
    ] = 5.0
    drop_unread: Annotated[
        bool, Field(description="let the retention of an SQLite log drop inputs that a service has not read")
    ] = False
    lost_owners: Annotated[
        int,
        Field(
            ge=0,
            description="how many owners a task loses while each handles the same input or effect alone, before that is parked; "
            "0: any number",
        ),
    ] = 3
    breaker_failures: Annotated[
        int, Field(ge=0, description="failures in a row that stop the calls to a port; 0: none do")
    ] = 20
    breaker_pause_s: Annotated[
        Seconds,
        Field(
            description="for how long calls wait then, at first, and up to five times as long while the port stays away "
            "(seconds); no attempts are used up"
        ),
    ] = 1.0
    state_dir: Annotated[
        str, Field(description="where local stores are when the log is not a file on this machine")
    ] = "var/state"
    standbys: Annotated[
        int, Field(ge=0, description="other processes that keep a copy of each task, so that a takeover is quick")
    ] = 0
    blocked_s: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 1.0
    """After how long what blocks the whole process is named in the log."""
    restore_chunk: Count = 2_000
    """How many changelog records are restored at a time."""
    skipped_inputs: Count = 5_000
    """After how many inputs that lead to nothing a task commits its position all the same."""
    retry_pause_s: Seconds = 0.2
    """The pause after a transaction that failed for a while."""
    compare_topics_s: Annotated[Seconds, Field(gt=0)] = 5.0
    """How often a process looks whether its inputs are still the topics that they were."""
    flush_s: Seconds = 5.0
    """How often local stores are made durable."""

    def breaker(self, port: str) -> Breaker:
        """Return a new circuit breaker for a port."""
        return Breaker(port, BreakerConfig(self.breaker_failures, self.breaker_pause_s, 5 * self.breaker_pause_s))
