"""Compares equal times before and after a deployment: how sagas ended, what was parked, and how long steps took."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from eventlib.ground.histogram import Histogram
from eventlib.index.log_index import LogIndex
from eventlib.operations.deployments import Deployment, ServiceDeployment

FEW = 100
"""With fewer sagas than this, a rate says little and a p99 is one of the slowest."""
_MOST = 500
"""How many sagas of a time, of the newest that have changed and of the newest that have started in it, have their steps measured."""
_CODES = "SELECT service, code_version, min(first_ms) FROM _code GROUP BY 1, 2"
_ENDED = """
SELECT count(*), coalesce(sum(NOT _is_good), 0), coalesce(sum(failures > 0), 0), coalesce(sum(compensations > 0), 0)
FROM _sagas WHERE ended_at >= ? AND ended_at < ?
"""
_STARTED = "SELECT count(*) FROM _sagas WHERE started_at >= ? AND started_at < ? AND steps > 0"
_PARKED = "SELECT service, decider, kind, count(*) FROM _failed WHERE at_ms >= ? AND at_ms < ? GROUP BY 1, 2, 3"
_STEPS = """
WITH those AS (
    SELECT * FROM (SELECT saga FROM _sagas WHERE last_at >= ?1 AND last_at < ?2 ORDER BY last_at DESC LIMIT ?3)
    UNION SELECT * FROM (SELECT saga FROM _sagas WHERE started_at >= ?1 AND started_at < ?2 ORDER BY started_at DESC LIMIT ?3)
)
SELECT e.saga, e.type, e.recorded_at, e.id, e.causation_id FROM those CROSS JOIN _events AS e ON e.saga = those.saga
"""


@dataclass(frozen=True, slots=True)
class StepTimes:
    """How long after their causes the events of a type came (ms), and how many those are."""

    count: int = 0
    p50_ms: int | None = None
    p99_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Measures:
    """Figures of a time, from `since_ms` to before `until_ms`.

    Of the sagas that `ended` in it, some `failed`: by a failure or a compensation; `stumbled` have a failure among their
    steps, and `compensated` a compensation. `parked` counts causes of parking, and `steps` times by the type of event, of
    the newest `timed` sagas.
    """

    since_ms: int
    until_ms: int
    started: int
    ended: int
    failed: int
    stumbled: int
    compensated: int
    parked: Mapping[tuple[str, str, str], int]
    steps: Mapping[str, StepTimes]
    timed: int

    @property
    def is_few(self) -> bool:
        """Whether too few sagas ended for a rate to say much."""
        return self.ended < FEW


def window_ms(chosen: Deployment, every: Sequence[Deployment], wanted_ms: int, now_ms: int) -> int:
    """Return how much time is compared on each side: what is wanted, but without another deployment of its services, or the future."""
    others = [each for each in every if each.id != chosen.id and {*each.services} & {*chosen.services}]
    distances = [abs(each.at_ms - chosen.at_ms) for each in others]
    return max(min([wanted_ms, now_ms - chosen.at_ms, *distances]), 1)


def journaled(index: LogIndex) -> list[ServiceDeployment]:
    """Return since when each service has decided by each version of its code, as the journals have it."""
    return [ServiceDeployment(service, code, at_ms, is_recorded=False) for service, code, at_ms in index.rows(_CODES)]


def measures(index: LogIndex, since_ms: int, until_ms: int) -> Measures:
    """Return the figures of a time. Cost: the sagas of that time, of whose steps the newest are read."""
    time = since_ms, until_ms
    ((started,),), ((ended, *how),) = index.rows(_STARTED, time), index.rows(_ENDED, time)
    parked = {(service, decider, kind): count for service, decider, kind, count in index.rows(_PARKED, time)}
    steps, timed = _steps(index, *time)
    failed, stumbled, compensated = how
    return Measures(since_ms, until_ms, started, ended, failed, stumbled, compensated, parked, steps, timed)


def _steps(index: LogIndex, since_ms: int, until_ms: int) -> tuple[dict[str, StepTimes], int]:
    rows = index.rows(_STEPS, (since_ms, until_ms, _MOST))
    at, times = {each[3]: each[2] for each in rows}, defaultdict[str, Histogram](Histogram)
    for _, kind, at_ms, _, cause in rows:
        if since_ms <= at_ms < until_ms and cause in at:
            times[kind].add(at_ms - at[cause])
    found = {
        kind: StepTimes(each.count, each.percentile(0.5), each.percentile(0.99)) for kind, each in sorted(times.items())
    }
    return found, len({each[0] for each in rows})
