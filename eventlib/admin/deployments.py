"""The admin API's preview of a deployment: begun here, made beside the requests, and looked at until it is done."""

from dataclasses import asdict
from typing import Annotated

from fastapi import FastAPI, HTTPException
from pydantic import BaseModel, ConfigDict, Field

from eventlib.admin.deployment_previews import DeploymentAsked, DeploymentPreviews, PreviewRun
from eventlib.http.gate import Caller
from eventlib.identity.principal import Role, allow

Text = Annotated[str, Field(max_length=200)]


class Deploy(BaseModel):
    """A deployment to preview: the revision that is deployed, the one that runs now, and since when it is compared."""

    model_config = ConfigDict(extra="forbid")

    code: Text = ""
    against: Text = ""
    since: Text = ""


class DeploymentHandlers:
    """The request handlers of previews of deployments."""

    def __init__(self, previews: DeploymentPreviews) -> None:
        self._previews = previews

    @allow(Role.OPERATOR)
    async def begin(self, request: Deploy, caller: Caller) -> dict[str, object]:
        """Begin a preview; nothing is deployed, and nothing is written to the log."""
        return _run_json(self._previews.begin(DeploymentAsked(**request.model_dump()), caller.by))

    @allow(Role.OPERATOR, Role.AUDITOR)
    async def show(self) -> dict[str, object]:
        """Return the newest preview, and what came of it once it is done."""
        if self._previews.newest is None:
            raise HTTPException(404, "this server has previewed no deployment: begin one with POST")
        return _run_json(self._previews.newest)


def add_deployments(app: FastAPI, previews: DeploymentPreviews) -> None:
    """Add the routes of previews of deployments."""
    handlers = DeploymentHandlers(previews)
    app.get("/deployment/preview")(handlers.show)
    app.post("/deployment/preview", status_code=202)(handlers.begin)


def _run_json(run: PreviewRun) -> dict[str, object]:
    told: dict[str, object] = {**asdict(run.asked), "by": run.by, "begun_at": run.begun_at, "status": run.status}
    if run.error:
        told["error"] = run.error
    return told | ({"preview": run.found} if run.found else {})
