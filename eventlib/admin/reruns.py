"""The admin API's reruns and resets: begun here, carried out beside the requests, and looked at until they are done."""

from dataclasses import asdict
from typing import Annotated

from fastapi import FastAPI, HTTPException
from pydantic import Field

from eventlib.admin.bodies import ActBody, Body, Reason
from eventlib.eventlog import EventLog
from eventlib.http.gate import Caller
from eventlib.identity.principal import READERS, Principal, Role, allow
from eventlib.operations.as_json import difference_json
from eventlib.operations.clock_reset import outcome_json, preview_clock_reset, preview_json, reset_as_previewed
from eventlib.operations.dry_run import refuse_moved
from eventlib.operations.reprocessing.dropping import drop, droppable, token_of_drop
from eventlib.operations.reprocessing.jobs import RerunJob, RerunJobs, way_back
from eventlib.operations.reprocessing.listing import existing_metadata, reruns
from eventlib.operations.reprocessing.metadata import RerunSpec
from eventlib.operations.seek import move, reset_plans, reset_target, token_of_plans

At = Annotated[str | None, Field(max_length=40)]


class Begin(Body):
    """A rerun to begin, or to go on with: why, from and up to which times of the service's history."""

    reason: Reason
    since: At = None
    until: At = None


class TakeOver(Body):
    """Why a service takes over a rerun's states, and whether effects run that only the rerun has requested.

    A dry run only shows what would be done.
    """

    reason: Reason
    run_effects: bool = False
    dry_run: bool = False


class Reset(TakeOver):
    """Where a service goes on: earliest, latest, or a time."""

    to: Annotated[str, Field(min_length=1, max_length=40)]
    topics: list[str] = Field(default_factory=list)
    as_previewed: Annotated[
        str, Field(max_length=100, description="Forwards: refuse what a dry run has not shown.")
    ] = ""


class ResetClock(ActBody):
    """Which tasks' clocks are reset (all of the service's that are ahead, or one), and why."""

    reason: Reason
    partition: Annotated[int | None, Field(ge=0)] = None


class RerunHandlers:
    """The request handlers of reruns and resets."""

    def __init__(self, log: EventLog, jobs: RerunJobs) -> None:
        self._log = log
        self._jobs = jobs

    @allow(*READERS)
    async def list_all(self) -> dict[str, object]:
        """List the reruns on the log."""
        return {"reruns": [asdict(each) for each in await reruns(self._log)]}

    @allow(Role.OPERATOR)
    async def begin(self, service: str, name: str, request: Begin, caller: Caller) -> dict[str, object]:
        """Reprocess a service's history under a name, or go on with that."""
        spec = RerunSpec.of(_signed(caller, request.reason), request.since, request.until)
        return _job_json(self._jobs.begin(RerunJob(service, name, spec)))

    @allow(*READERS)
    async def show(self, service: str, name: str, caller: Caller) -> dict[str, object]:
        """Return how far a rerun is that was begun here, and what differs once it is done."""
        job = self._jobs.job(service, name)
        if job is None:
            await existing_metadata(self._log, self._log.choreography.service(service), name)
            raise HTTPException(404, f"this server does nothing for {name}: begin it, and it goes on where it was")
        found = job.difference_for(self._log.choreography, sees_personal=caller.sees_personal)
        return (
            _job_json(job)
            if found is None
            else _job_json(job) | {"differences": [*difference_json(service, name, found)]}
        )

    @allow(Role.OPERATOR)
    async def switch(self, service: str, name: str, request: TakeOver, caller: Caller) -> dict[str, object]:
        """Make a rerun's states the service's."""
        note = await existing_metadata(self._log, self._log.choreography.service(service), name)
        spec = RerunSpec(_signed(caller, request.reason), note.since_ms, note.until_ms)
        job = RerunJob(service, name, spec, cutover=True, runs_effects=request.run_effects, dry_run=request.dry_run)
        return _job_json(self._jobs.begin(job))

    @allow(Role.OPERATOR)
    async def drop(self, service: str, name: str, request: ActBody | None = None) -> dict[str, object]:
        """Delete a rerun, with all its outputs; a dry run tells what that would delete."""
        asked, of = request or ActBody(), self._log.choreography.service(service)
        topics = await droppable(self._log, of, name)
        refuse_moved(asked.as_previewed, token := token_of_drop(name, topics))
        told: dict[str, object] = {"service": service, "rerun": name, "dropped": not asked.dry_run, "topics": topics}
        if asked.dry_run:
            return told | {"as_previewed": token}
        self._jobs.forget(service, name)
        await drop(self._log, of, name)
        return told

    @allow(Role.OPERATOR)
    async def reset(self, service: str, request: Reset, caller: Caller) -> dict[str, object]:
        """Move a service's offsets forwards; backwards, begin the rerun whose states it takes over, unless it is a dry run."""
        of, target = self._log.choreography.service(service), reset_target(request.to)
        why = _signed(caller, request.reason)
        plans = await reset_plans(self._log, of, target, request.topics)
        if plans is not None:
            refuse_moved(request.as_previewed, token := token_of_plans(plans))
            done = plans if request.dry_run else await move(self._log, of, plans, why)
            told: dict[str, object] = {"service": service, "done": not request.dry_run, "moves": [*map(asdict, done)]}
            return told | ({"as_previewed": token} if request.dry_run else {})
        job = await way_back(self._log, of, target, why)
        job.cutover, job.runs_effects, job.dry_run = True, request.run_effects, request.dry_run
        return _job_json(self._jobs.begin(job))

    @allow(Role.OPERATOR)
    async def reset_clock(self, service: str, request: ResetClock, caller: Caller) -> dict[str, object]:
        """Bring back the tasks of a service whose time a wrong clock has set ahead; a dry run tells what that would come to."""
        of, why = self._log.choreography.service(service), _signed(caller, request.reason)
        if request.dry_run:
            return preview_json(await preview_clock_reset(self._log, of, request.partition))
        done = await reset_as_previewed(self._log, of, request.partition, request.as_previewed, why)
        return outcome_json(done, why)


def add_reruns(app: FastAPI, log: EventLog, jobs: RerunJobs) -> None:
    """Add the routes of reruns and resets."""
    handlers, one = RerunHandlers(log, jobs), "/services/{service}/reruns/{name}"
    app.get("/reruns")(handlers.list_all)
    app.get(one)(handlers.show)
    app.post(one, status_code=202)(handlers.begin)
    app.post(f"{one}/switch", status_code=202)(handlers.switch)
    app.post(f"{one}/drop")(handlers.drop)
    app.post("/services/{service}/reset", status_code=202)(handlers.reset)
    app.post("/services/{service}/reset-clock", status_code=202)(handlers.reset_clock)


def _signed(caller: Principal, reason: str) -> str:
    return f"{caller.by}: {reason.strip()}"


def _job_json(job: RerunJob) -> dict[str, object]:
    found: dict[str, object] = {
        "service": job.service,
        "rerun": job.name,
        "takes_over": job.cutover and not job.dry_run,
        "status": job.status,
        "done": job.done,
        "of": job.of,
    }
    if job.error:
        found["error"] = job.error
    if job.switched is not None:
        found["would_switch" if job.dry_run else "switched"] = asdict(job.switched)
    return found
