"""The page that previews a deployment: contracts, what would be decided otherwise, and whether what is in flight ends lawfully."""

from fastapi import APIRouter, Request
from fastapi.responses import RedirectResponse, Response
from pydantic import ValidationError

from eventlib.admin.deployment_previews import Deploy, DeploymentPreviews
from eventlib.console.forms import OwnForm
from eventlib.console.rendering import Pages
from eventlib.errors import ContractError
from eventlib.ground.pydantic_errors import sentence_of
from eventlib.http.gate import Caller
from eventlib.identity.principal import READERS, Role, allow


def deployment_routes(pages: Pages, previews: DeploymentPreviews) -> APIRouter:
    """Return the routes of previews of deployments."""
    routes = APIRouter()

    @routes.get("/deployment")
    @allow(*READERS)
    async def show(request: Request) -> Response:
        return pages.render(request, "deployment.html", run=previews.newest, wrong="")

    @routes.post("/deployment")
    @allow(Role.OPERATOR)
    async def begin(request: Request, form: OwnForm, caller: Caller) -> Response:
        try:
            previews.begin(Deploy(code=form.get("code").strip(), against=form.get("against").strip()), caller.by)
        except (ContractError, ValidationError) as error:
            wrong = sentence_of(error) if isinstance(error, ValidationError) else str(error)
            return pages.render(request, "deployment.html", 422, run=previews.newest, wrong=wrong)
        return RedirectResponse("/deployment", 303)

    return routes
