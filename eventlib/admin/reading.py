"""What operators and auditors look at over HTTP: the status, what is parked and paused, reruns and previews of deployments."""

from dataclasses import asdict, replace
from typing import Annotated

from fastapi import FastAPI, HTTPException, Query, Response
from pydantic import Field

from eventlib.admin.deployment_previews import Deploy, DeploymentPreviews
from eventlib.eventlog import EventLog
from eventlib.http.gate import Caller
from eventlib.http.paths import KEY
from eventlib.identity.principal import READERS, Role, allow, public
from eventlib.model.event import Event
from eventlib.model.personal import masked
from eventlib.operations.act import Desk
from eventlib.operations.as_json import parking_json, paused_json, status_json, waiting_json
from eventlib.operations.complaints import Limits, complaints
from eventlib.operations.deployment_reports import report_of
from eventlib.operations.deployments import deployments
from eventlib.operations.parked_acts import ParkedSelection, Retry
from eventlib.operations.reprocessing.jobs import RerunJobs
from eventlib.operations.reprocessing.listing import existing_metadata, reruns
from eventlib.operations.rerun_acts import RerunOutcome
from eventlib.operations.status import StatusReader
from eventlib.queries.parked import WaitingInput, waiting_inputs
from eventlib.queries.pauses import pauses

_MOST_LISTED = 1_000


class ListQuery(ParkedSelection):
    """Which parked keys and effects to list, and how many."""

    limit: Annotated[int, Field(ge=1, le=_MOST_LISTED)] = 100


def add_status(app: FastAPI, log: EventLog, reader: StatusReader) -> None:
    """Add the routes of the status, of health, and of what is paused."""

    @app.get("/healthz")
    @public
    async def health() -> Response:
        """Answer 200 when healthy, else 503."""
        return Response(status_code=503 if complaints(await reader.read(), Limits()) else 200)

    @app.get("/status")
    @allow(*READERS)
    async def status() -> dict[str, object]:
        """Return the status of services."""
        found = await reader.read()
        return status_json(found, complaints(found, Limits()))

    @app.get("/pauses")
    @allow(*READERS)
    async def list_paused() -> dict[str, object]:
        """List what is paused, the oldest first."""
        return {"paused": [paused_json(each) for each in await pauses(log)]}


def add_parked(app: FastAPI, log: EventLog) -> None:
    """Add the routes that list what is parked, and show one."""

    @app.get("/parked")
    @allow(*READERS)
    async def list_parked(wanted: Annotated[ListQuery, Query()]) -> dict[str, object]:
        """List what is parked, oldest first."""
        found = await wanted.parkings(log)
        return {"count": len(found), "parked": [parking_json(each) for each in found[: wanted.limit]]}

    @app.get(f"/parked/{{service}}/{{decider}}/{KEY}")
    @allow(*READERS)
    async def show(
        service: str,
        decider: str,
        key: str,
        caller: Caller,
        limit: Annotated[int, Query(ge=1, le=_MOST_LISTED)] = 100,
    ) -> dict[str, object]:
        """Show one parked key or effect, and the inputs that wait behind it; personal fields masked for an auditor."""
        (parking,) = (await Retry(service=service, decider=decider, key=key).select(Desk(log, ""))).ready
        waiting = await waiting_inputs(log, parking, limit)
        seen = waiting if caller.sees_personal else [_masked(each) for each in waiting]
        return {**parking_json(parking), "inputs": [waiting_json(parking, each) for each in seen]}


def add_deployments(app: FastAPI, log: EventLog, previews: DeploymentPreviews) -> None:
    """Add the routes of deployments and their previews: one is begun here, made beside the requests, and looked at until it is done."""

    @app.get("/deployments")
    @allow(*READERS)
    async def list_deployments() -> dict[str, object]:
        """List which code the services were started with, the newest first, and the report of its preview where one is kept."""
        found = list[dict[str, object]]()
        for each in await deployments(log.port):
            report = await report_of(log.port, each.code_version, each.revision)
            found.append({**each.json(), "report": None if report is None else report.value})
        return {"deployments": found}

    @app.get("/deployment/preview")
    @allow(*READERS)
    async def show_preview() -> dict[str, object]:
        """Return the newest preview, and what came of it once it is done."""
        if previews.newest is None:
            raise HTTPException(404, "this server has previewed no deployment: begin one with POST")
        return previews.newest.json()

    @app.post("/deployment/preview", status_code=202)
    @allow(Role.OPERATOR)
    async def begin(request: Deploy, caller: Caller) -> dict[str, object]:
        """Begin a preview; nothing is deployed, and nothing but its report is written to the log."""
        return previews.begin(request, caller.by).json()


def add_reruns(app: FastAPI, log: EventLog, jobs: RerunJobs) -> None:
    """Add the routes that list reruns, and show one."""

    @app.get("/reruns")
    @allow(*READERS)
    async def list_all() -> dict[str, object]:
        """List the reruns on the log."""
        return {"reruns": [asdict(each) for each in await reruns(log)]}

    @app.get("/services/{service}/reruns/{name}")
    @allow(*READERS)
    async def show(service: str, name: str, caller: Caller) -> dict[str, object]:
        """Return how far a rerun is that was begun here, and what differs once it is done."""
        job = jobs.job(service, name)
        if job is None:
            await existing_metadata(log, log.choreography.service(service), name)
            raise HTTPException(404, f"this server does nothing for {name}: begin it, and it goes on where it was")
        return RerunOutcome(log, job).json(personal=caller.sees_personal)


def _masked(waiting: WaitingInput) -> WaitingInput:
    value = waiting.reading.value
    if not isinstance(value, Event):
        return waiting
    return replace(waiting, reading=waiting.reading._replace(value=masked(value)))
