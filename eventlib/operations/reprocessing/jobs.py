"""Reruns that a server carries out beside its requests: one after the other, in a thread, with a log of its own."""

import asyncio
import logging
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Literal

from eventlib.errors import ContractError, EventlibError
from eventlib.eventlog import EventLog
from eventlib.model.choreography import Choreography
from eventlib.model.kept_error import KeptError
from eventlib.model.personal import MASKED
from eventlib.model.service import Service
from eventlib.opening import open_log
from eventlib.operations.dry_run import refuse_moved
from eventlib.operations.reprocessing.comparison import Difference, difference
from eventlib.operations.reprocessing.cutover import Switched, preview_switch, switch
from eventlib.operations.reprocessing.listing import name_of_reset
from eventlib.operations.reprocessing.metadata import RerunSpec
from eventlib.operations.reprocessing.running import Progress, Rerun, rerunning
from eventlib.operations.seek import Later
from eventlib.personal.opening import has_personal
from eventlib.replay.comparison import Change
from eventlib.state.open import open_stores
from eventlib.values import from_ms, to_ms

_log = logging.getLogger(__name__)
_LISTED = 200
"""How many differences of each kind are kept for those who look."""
_STOPPED = "this server was stopped before it was done: begin it again, and it goes on where it was"


class _Stopped(Exception):
    """The server ends."""


@dataclass(slots=True)
class RerunJob:
    """A rerun that is carried out: what it has to do, how far it is (transactions done, of how many), what came of it.

    With `cutover` the service takes over the rerun's states once it is caught up; `runs_effects` is for that. With
    `dry_run` nothing of this is written: `switched` is what would come of it, and `token` names that. `is_open`: some task
    of the service has not taken over its states.
    """

    service: str
    name: str
    spec: RerunSpec
    cutover: bool = False
    runs_effects: bool = False
    dry_run: bool = False
    as_previewed: str = ""
    # Before what depends on it: a copy is read in this order, and is never over without its outcome.
    status: Literal["waiting", "running", "done", "failed"] = "waiting"
    done: int = 0
    of: int = 0
    error: str = ""
    difference: Difference | None = None
    switched: Switched | None = None
    token: str = ""
    is_open: bool = True

    @property
    def is_over(self) -> bool:
        """Whether it is done, or has failed."""
        return self.status in {"done", "failed"}

    def difference_for(self, app: Choreography, *, sees_personal: bool) -> Difference | None:
        """Return what differs as a caller may see it: without the right to personal fields, no value where there are such."""
        found = self.difference
        if found is None or sees_personal or not has_personal(app):
            return found
        events = [replace(each, changes=_masked(each.changes)) for each in found.events]
        return replace(found, events=events, states=[replace(s, changes=_masked(s.changes)) for s in found.states])


def _masked(changes: Sequence[Change]) -> Sequence[Change]:
    """Return changes without their values: which of them are personal follows from no path."""
    return [Change(each.path, MASKED, MASKED) for each in changes]


class RerunJobs:
    """The reruns of one server. The log has what they did; how they differ is here, until the server ends.

    `state_dir` is where processes of this machine keep their local stores.
    """

    def __init__(self, log: EventLog, state_dir: str) -> None:
        self._log = log
        self._state_dir = state_dir
        self._thread: ThreadPoolExecutor | None = None
        self._jobs: dict[tuple[str, str], RerunJob] = {}
        self._is_closed = False

    def job(self, service: str, name: str) -> RerunJob | None:
        """Return what this server has last done for a rerun, as it is at this moment; None for nothing.

        A snapshot: what its reader is told of the status fits what it is told of the outcome, though a thread works on both.
        """
        job = self._jobs.get((service, name))
        return None if job is None else replace(job)

    async def begin(self, job: RerunJob) -> RerunJob:
        """Begin a job, behind those that are not done yet, and return it; or the one that the same rerun has, if it is not done.

        Guarantee: the service is not affected before a cutover, and an interrupted rerun goes on when it is begun again.
        Raises: WiringError for an unknown service, and for what cannot be a name; ContractError for a cutover while its rerun is carried out.
        """
        self._log.choreography.service(job.service).under(job.name)
        there = self._jobs.get((job.service, job.name))
        if there is not None and not there.is_over:
            if job.cutover and not there.cutover:
                raise ContractError(f"{job.name} is not caught up yet: wait until it is, and look at what differs")
            return there
        self._jobs[job.service, job.name] = job
        self._thread = self._thread or ThreadPoolExecutor(1, "reruns")
        self._thread.submit(self._carry_out, job)
        return job

    def forget(self, service: str, name: str) -> None:
        """Forget what was done for a rerun that is deleted. Raises: ContractError while it is carried out."""
        there = self.job(service, name)
        if there is not None and not there.is_over:
            raise ContractError(f"{name} is being carried out: wait until it is done")
        self._jobs.pop((service, name), None)

    async def close(self) -> None:
        """Stop at the next transaction: what is committed stays, and the rest can be done later."""
        self._is_closed = True
        if self._thread is not None:
            await asyncio.to_thread(self._thread.shutdown, cancel_futures=True)

    def _carry_out(self, job: RerunJob) -> None:
        job.status = "running"
        try:
            asyncio.run(self._run(job))
            job.status = "done"
        except _Stopped:
            job.error, job.status = _STOPPED, "failed"
        except (EventlibError, TimeoutError) as error:
            job.error, job.status = str(error) or "the log did not answer in time: begin it again", "failed"
        except Exception as error:  # noqa: BLE001  a bug in a handler ends its job, and no other
            kept = KeptError.of(error, personal=has_personal(self._log.choreography))
            _log.error("rerun %s of %s failed\n%s", job.name, job.service, kept.traceback)
            job.error, job.status = "it failed, and why is in the log of this server", "failed"

    async def _run(self, job: RerunJob) -> None:
        # What handlers decide from a mask would be wrong: without the right to read personal fields this raises.
        async with open_log(self._log.port.url, self._log.choreography, read_only=True, personal=True) as log:
            listed = None if job.cutover and not job.dry_run else _LISTED
            await carry_out(job, log, self._state_dir, self._progress(job), listed)

    def _progress(self, job: RerunJob) -> Progress:
        def progress(done: int, of: int) -> None:
            job.done, job.of = done, of
            if self._is_closed:
                raise _Stopped

        return progress


async def carry_out(
    job: RerunJob,
    log: EventLog,
    state_dir: str,
    progress: Progress,
    listed: int | None,
    look: Callable[[RerunJob], None] = lambda _: None,
) -> None:
    """Do what a job has to do, on a log with the rights of its handlers; what came of it is in the job then.

    `listed` is how many differences of each kind are kept; None compares nothing. `look` is shown the job before a cutover,
    and raises where that is not to be. Raises: ContractError when a cutover would not be as its preview.
    """
    service = log.choreography.service(job.service)

    async def compared(rerun: Rerun) -> None:
        if listed is not None:
            job.difference, job.is_open = await difference(rerun, listed), bool(rerun.followers)
        look(job)

    asked = service, job.name, job.spec
    if job.dry_run:
        seen = await preview_switch(log, *asked, compared, progress, runs_effects=job.runs_effects)
        job.switched, job.token = seen
        return
    if job.as_previewed:
        _, token = await preview_switch(log, *asked, runs_effects=job.runs_effects)
        refuse_moved(job.as_previewed, token)
    stores = open_stores(log.port.url, state_dir)
    try:
        async with rerunning(log, stores, *asked, progress) as rerun:
            await compared(rerun)
            if job.cutover:
                job.switched = await switch(rerun, job.spec.why, runs_effects=job.runs_effects)
    finally:
        stores.close()


async def way_back(log: EventLog, service: Service, to: Literal["earliest"] | Later, why: str) -> RerunJob:
    """Return the job by which a service goes back to a time: the rerun whose states it can then take over."""
    since_ms = to_ms(to) if isinstance(to, datetime) else 0
    return RerunJob(service.name, await name_of_reset(log, service, since_ms), RerunSpec(why, since_ms))


@dataclass(frozen=True, slots=True)
class RerunOutlook:
    """What a rerun of a service would go through: transactions of its tasks, between two times."""

    service: str
    tasks: int
    transactions: int
    first_at: datetime | None
    last_at: datetime | None


async def outlook(log: EventLog, service: Service) -> RerunOutlook:
    """Return what a rerun of a service would go through."""
    transactions, times, name = 0, list[int](), service.journal.name
    for partition in range(service.partitions if name in await log.port.topics() else 0):
        start, end = await log.port.start(name, partition), await log.port.end(name, partition)
        transactions += end - start
        for offset in (start, end - 1):
            times += [each.timestamp_ms for each in await log.port.read(name, partition, max(start, offset), 1)]
    first, last = (from_ms(min(times)), from_ms(max(times))) if times else (None, None)
    return RerunOutlook(service.name, service.partitions, transactions, first, last)
