"""The admin API's list of what is paused."""

from fastapi import FastAPI

from eventlib.eventlog import EventLog
from eventlib.identity.principal import READERS, allow
from eventlib.operations.as_json import paused_json
from eventlib.queries.pauses import pauses


def add_pauses(app: FastAPI, log: EventLog) -> None:
    """Add the route of pauses."""

    @app.get("/pauses")
    @allow(*READERS)
    async def list_all() -> dict[str, object]:
        """List what is paused, the oldest first."""
        return {"paused": [paused_json(each) for each in await pauses(log)]}
