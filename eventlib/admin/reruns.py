"""Reruns, listed and shown by the admin API."""

from dataclasses import asdict

from fastapi import FastAPI, HTTPException

from eventlib.eventlog import EventLog
from eventlib.http.gate import Caller
from eventlib.identity.principal import READERS, allow
from eventlib.operations.reprocessing.jobs import RerunJobs
from eventlib.operations.reprocessing.listing import existing_metadata, reruns
from eventlib.operations.rerun_acts import RerunOutcome


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
