"""The check before a deployment: what the current code would do to in-flight sagas."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from eventlib.eventlog import EventLog
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
        """Whether the current code can take over: no saga is stranded, no decision changes, all states are readable.

        Not where something is damaged: what depends on it is not known.
        """
        return not self.standing.stranded and not self.standing.unreadable and self.report.same and not self.damaged

    @property
    def damaged(self) -> tuple[str, ...]:
        """Sentences about damaged records."""
        return tuple(sorted({*self.standing.damaged, *self.report.damaged}))


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
    found, sagas = await standing(log)
    if not sagas:
        return PreflightReport(found, NOTHING_COMPARED)
    return PreflightReport(found, await replay(log, services=services, since=since, sagas=sagas, limit=limit))
