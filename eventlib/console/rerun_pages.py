"""The pages of reruns: what one would go through, its progress, what differs, and the service that takes over its states."""

import asyncio
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from fastapi.responses import RedirectResponse, Response

from eventlib.console.forms import Form, OwnForm
from eventlib.console.rendering import Pages, path_of
from eventlib.errors import EventlibError
from eventlib.eventlog import EventLog
from eventlib.http.gate import Caller
from eventlib.http.problems import Refusal
from eventlib.identity.principal import READERS, Principal, Role, allow
from eventlib.operations.act import Desk
from eventlib.operations.reprocessing.jobs import RerunJob, RerunJobs, outlook
from eventlib.operations.reprocessing.listing import KnownRerun, droppable, existing_metadata, reruns
from eventlib.operations.reprocessing.metadata import RerunSpec
from eventlib.operations.rerun_acts import Drop, Rerun, Switch
from eventlib.replay.comparison import ABSENT
from eventlib.runtime.records import code_version

_ONE = "/reruns/{service}/{name}"


def rerun_routes(pages: Pages, log: EventLog, jobs: RerunJobs) -> APIRouter:
    """Return the routes of reruns."""
    routes = APIRouter()
    _add_begin(routes, pages, log, jobs)
    _add_pages(routes, pages, log, jobs)
    _add_acts(routes, log, jobs)
    return routes


def _add_begin(routes: APIRouter, pages: Pages, log: EventLog, jobs: RerunJobs) -> None:
    async def page(request: Request, service: str, form: Form | None = None, wrong: str = "") -> Response:
        found = await outlook(log, log.choreography.service(service))
        name = form.get("name") if form else await _free_name(log, service)
        code = code_version(log.choreography)
        content = {"outlook": found, "name": name, "code": code, "form": form, "wrong": wrong}
        return pages.render(request, "rerun_new.html", 422 if wrong else 200, **content)

    @routes.get("/reruns/new")
    @allow(Role.OPERATOR)
    async def new(request: Request, service: Annotated[str, Query(max_length=200)]) -> Response:
        return await page(request, service)

    @routes.post("/reruns/new")
    @allow(Role.OPERATOR)
    async def begin(request: Request, form: OwnForm, caller: Caller) -> Response:
        service, name = form.get("service"), form.get("name").strip()
        try:
            await form.act(Rerun, name=name).perform(Desk(log, caller.by, reruns=jobs))
        except EventlibError as error:
            return await page(request, service, form, str(error))
        return _way(service, name)


def _add_pages(routes: APIRouter, pages: Pages, log: EventLog, jobs: RerunJobs) -> None:
    @routes.get("/reruns")
    @allow(*READERS)
    async def list_all(request: Request) -> Response:
        services = [each.name for each in log.choreography.services]
        return pages.render(request, "reruns.html", reruns=await reruns(log), services=services)

    @routes.get(_ONE)
    @allow(*READERS)
    async def show(request: Request, service: str, name: str, caller: Caller) -> Response:
        job = jobs.job(service, name)  # before the log is read: once it is over, the log has all that it did
        await asyncio.sleep(
            0
        )  # a log is as it was at some time of the loop's iteration, and a thread ends the job at any
        known = await _known(log, service, name)
        if known is None and job is None:
            raise Refusal(404, "unknown-rerun", f"{service} has no rerun {name} on this log")
        is_still = job is None or job.is_over
        can_go = known is not None and not known.switched and is_still
        gone = await droppable(log, log.choreography.service(service), name) if can_go else None
        return pages.render(request, "rerun.html", **_shown(log, service, name, job, caller), known=known, gone=gone)


def _add_acts(routes: APIRouter, log: EventLog, jobs: RerunJobs) -> None:
    @routes.post(f"{_ONE}/compare")
    @allow(Role.OPERATOR)
    async def compare(service: str, name: str, form: OwnForm) -> Response:
        del form  # it was checked; the rerun on the log has its reason
        note = await existing_metadata(log, log.choreography.service(service), name)
        await jobs.begin(RerunJob(service, name, RerunSpec(note.why, note.since_ms, note.until_ms)))
        return _way(service, name)

    @routes.post(f"{_ONE}/switch")
    @allow(Role.OPERATOR)
    async def switch(service: str, name: str, form: OwnForm, caller: Caller) -> Response:
        if form.get("sure").strip() != name:
            raise Refusal(422, "unsure", f"write {name} to have {service} take over its states: there is no way back")
        act = form.act(Switch, service=service, name=name, run_effects=form.get("effects") == "run")
        await act.perform(Desk(log, caller.by, reruns=jobs))
        return _way(service, name)

    @routes.post(f"{_ONE}/drop")
    @allow(Role.OPERATOR)
    async def delete(service: str, name: str, form: OwnForm, caller: Caller) -> Response:
        act = Drop(service=service, name=name, as_previewed=form.get("as_previewed"))
        await act.perform(Desk(log, caller.by, reruns=jobs))
        return RedirectResponse("/reruns", 303)


async def _known(log: EventLog, service: str, name: str) -> KnownRerun | None:
    return next((each for each in await reruns(log, log.choreography.service(service)) if each.name == name), None)


async def _free_name(log: EventLog, service: str) -> str:
    taken = {each.name for each in await reruns(log)}
    return next(name for number in range(1, len(taken) + 2) if (name := f"{service}-rerun-{number}") not in taken)


def _shown(log: EventLog, service: str, name: str, job: RerunJob | None, caller: Principal) -> dict[str, Any]:
    found = None if job is None else job.difference_for(log.choreography, sees_personal=caller.sees_personal)
    return {"service": service, "name": name, "job": job, "difference": found, "absent": ABSENT}


def _way(service: str, name: str) -> Response:
    return RedirectResponse(path_of("reruns", service, name), 303)
