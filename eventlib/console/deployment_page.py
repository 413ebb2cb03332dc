"""The pages of deployments: what was deployed, what is otherwise since one of them, and the preview of the next one."""

from typing import Annotated

from fastapi import APIRouter, Query, Request
from fastapi.responses import RedirectResponse, Response
from pydantic import ValidationError

from eventlib.admin.deployment_previews import Deploy, DeploymentPreviews
from eventlib.console.forms import OwnForm
from eventlib.console.rendering import Pages, path_of
from eventlib.errors import ContractError
from eventlib.ground.pydantic_errors import sentence_of
from eventlib.http.gate import Caller
from eventlib.http.problems import Refusal
from eventlib.identity.principal import READERS, Role, allow
from eventlib.index.log_index import LogIndex
from eventlib.operations.before_after import journaled, measures, window_ms
from eventlib.operations.deployment_reports import report_of
from eventlib.operations.deployments import Deployment, deployments
from eventlib.search.language import literal
from eventlib.values import now_ms

_SPANS = {"15m": 900_000, "1h": 3_600_000, "6h": 21_600_000, "1d": 86_400_000, "7d": 604_800_000}
Span = Annotated[str, Query(pattern=f"^({'|'.join(_SPANS)})$")]


def deployment_routes(pages: Pages, index: LogIndex, previews: DeploymentPreviews) -> APIRouter:
    """Return the routes of deployments and of their previews."""
    routes = APIRouter()

    async def every() -> list[Deployment]:
        return await deployments(index.log.port, journaled(index))

    async def overview(request: Request, status: int = 200, wrong: str = "") -> Response:
        return pages.render(
            request, "deployment.html", status, run=previews.newest, wrong=wrong, deployments=await every()
        )

    @routes.get("/deployment")
    @allow(*READERS)
    async def show(request: Request) -> Response:
        return await overview(request)

    @routes.get("/deployment/{name}")
    @allow(*READERS)
    async def show_one(request: Request, name: str, span: Span = "1h") -> Response:
        found = await every()
        chosen = next((each for each in found if each.id == name), None)
        if chosen is None:
            raise Refusal(
                404, "unknown-deployment", f"no deployment {name} is on this log: the list has those that are"
            )
        width, at_ms = window_ms(chosen, found, _SPANS[span], now_ms()), chosen.at_ms
        before, after = (measures(index, since, since + width) for since in (at_ms - width, at_ms))
        causes, steps = {**before.parked, **after.parked}, {**before.steps, **after.steps}
        return pages.render(
            request,
            "deployment_one.html",
            one=chosen,
            width=width,
            span=span,
            spans=[*_SPANS],
            is_cut=width < _SPANS[span],
            sides=(before, after),
            causes=sorted(causes, key=lambda each: -after.parked.get(each, 0)),
            steps=sorted(steps),
            report=await report_of(index.log.port, chosen.code_version, chosen.revision),
            spanning=path_of("sagas", where=_spanning(chosen)),
        )

    @routes.post("/deployment")
    @allow(Role.OPERATOR)
    async def begin(request: Request, form: OwnForm, caller: Caller) -> Response:
        try:
            previews.begin(Deploy(code=form.get("code").strip(), against=form.get("against").strip()), caller.by)
        except (ContractError, ValidationError) as error:
            return await overview(
                request, 422, sentence_of(error) if isinstance(error, ValidationError) else str(error)
            )
        return RedirectResponse("/deployment", 303)

    return routes


def _spanning(chosen: Deployment) -> str:
    """Return the query of the sagas that its code and the code before it decided in; by time where that is the same code, or unknown."""
    older = sorted({*chosen.before.values()} - {chosen.code_version})
    if older:
        versions = ", ".join(map(literal, older))
        return f"code_version = {literal(chosen.code_version)} and code_version in ({versions})"
    at = literal(chosen.at)
    return f"started_at < {at} and last_at >= {at}"
