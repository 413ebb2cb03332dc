"""Previews of deployments that a server makes beside its requests: `eventlib prove deploy` in a process of its own, one at a time."""

import asyncio
import json
import logging
import os
import re
import signal
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from eventlib.errors import ContractError, EventlibError
from eventlib.eventlog import EventLog
from eventlib.ground.tasks import cancelled
from eventlib.operations.deployment_reports import keep_report
from eventlib.values import from_ms, now_ms

_logger = logging.getLogger(__name__)
_REVISION = re.compile(r"([A-Za-z0-9][^\s:]*)?")
"""Nothing that a command would take for an option."""
Text = Annotated[str, Field(max_length=200)]


class Deploy(BaseModel):
    """A deployment to preview: the revision that is deployed (empty: the server's directory as it is), and the one that runs now.

    Without `against`, what is decided is compared with what was recorded; `since` leaves out what is older.
    """

    model_config = ConfigDict(extra="forbid")

    code: Text = ""
    against: Text = ""
    since: Text = ""

    @property
    def options(self) -> list[str]:
        """It as options of the command."""
        return [f"--{name}={value}" for name, value in self if value]


@dataclass(slots=True)
class PreviewRun:
    """A preview that is made or was made: `found` is what the command prints as JSON, once it is done."""

    asked: Deploy
    by: str
    begun_at: datetime = field(default_factory=lambda: from_ms(now_ms()))
    status: Literal["running", "done", "failed"] = "running"
    found: Mapping[str, object] = field(default_factory=dict)
    error: str = ""

    def json(self) -> dict[str, object]:
        """Return it as the admin API answers with it."""
        answer = {**self.asked.model_dump(), "by": self.by, "begun_at": self.begun_at, "status": self.status}
        answer |= {"error": self.error} if self.error else {}
        return answer | ({"preview": self.found} if self.found else {})


class DeploymentPreviews:
    """The newest preview of one server, of what is on a log; `app` is the application's name for the command, if it has one.

    Its report is kept on the log, if that can be written.
    """

    def __init__(self, log: EventLog, app: str | None = None) -> None:
        self.newest: PreviewRun | None = None
        self._log = log
        self._place = ("--log", log.port.url, *(() if app is None else ("--app", app)))
        self._task: asyncio.Task[None] | None = None

    def begin(self, asked: Deploy, by: str) -> PreviewRun:
        """Begin a preview, which replaces the one before.

        Raises: ContractError for what cannot be a revision, and while another one is made.
        """
        for name in ("code", "against"):
            if not _REVISION.fullmatch(getattr(asked, name)):
                raise ContractError(f"{name} is the name of a branch or a tag, or a commit's id; leave it out for none")
        if self.newest is not None and self.newest.status == "running":
            raise ContractError(f"{self.newest.by} has begun a preview that is not done yet: wait until it is")
        self.newest = PreviewRun(asked, by)
        self._task = asyncio.create_task(self._make(self.newest))
        return self.newest

    async def close(self) -> None:
        """End the process that makes a preview."""
        await cancelled(self._task)

    async def _make(self, run: PreviewRun) -> None:
        command = [sys.executable, "-m", "eventlib", "prove", "deploy", "--json", *run.asked.options, *self._place]
        try:
            code, out, err = await _ended(command)
            try:
                run.found = json.loads(out)
            except ValueError:
                said = " ".join(err.decode(errors="replace").split())
                run.status, run.error = "failed", said or f"it ended with exit code {code}"
                return
            await self._keep(run)
            run.status = "done"
        except BaseException:  # the next one may begin
            run.status, run.error = "failed", "the preview was interrupted: begin it again"
            raise

    async def _keep(self, run: PreviewRun) -> None:
        try:
            await keep_report(self._log.port, run.found, run.by)
        except EventlibError as error:
            _logger.warning("the report of a preview is not kept on the log: %s", error)


async def _ended(command: Sequence[str]) -> tuple[int | None, bytes, bytes]:
    """Run a command with all the processes that it starts, and end these if this is cancelled."""
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        *command, stdin=asyncio.subprocess.DEVNULL, stdout=pipe, stderr=pipe, start_new_session=True
    )
    try:
        out, err = await process.communicate()
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    return process.returncode, out, err
