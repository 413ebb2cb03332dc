"""The check before a deployment: what the current code would do to in-flight sagas."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from eventlib.eventlog import EventLog
from eventlib.replay.in_flight import InFlightSagas
from eventlib.replay.replaying import FIRST, replay
from eventlib.replay.report import NOTHING_COMPARED, Report
from eventlib.replay.stuck_sagas import InFlightStatus, standing


@dataclass(frozen=True, slots=True)
class PreflightReport:
    """The status of in-flight sagas, and which of their decisions change under the current code."""

    standing: InFlightStatus
    report: Report

    @property
    def is_open(self) -> bool:
        """Whether the current code can take over: no saga is stranded, no decision changes, all states are readable."""
        return not self.standing.stranded and not self.standing.unreadable and self.report.same


async def gate(
    log: EventLog,
    *,
    services: Sequence[str] | None = None,
    since: datetime | None = None,
    limit: int = FIRST,
) -> PreflightReport:
    """Return what the current code would do to in-flight sagas; the options are `replay`'s.

    Guarantee: read-only; services may run meanwhile.
    Raises: ContractError when no event ends a saga; what `replay` raises.
    """
    flights = InFlightSagas(log)
    found = await standing(log, flights)
    if not flights.keys:
        return PreflightReport(found, NOTHING_COMPARED)
    return PreflightReport(found, await replay(log, services=services, since=since, sagas=flights.keys, limit=limit))
