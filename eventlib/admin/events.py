"""The admin API's events that are sent by hand, signed with who sends them and why."""

from typing import Annotated

from fastapi import FastAPI
from pydantic import Field

from eventlib.admin.bodies import Body
from eventlib.eventlog import EventLog
from eventlib.http.gate import Caller
from eventlib.identity.principal import Role, allow
from eventlib.model.event import key_of
from eventlib.operations.sending import event_of, send_event


class Sending(Body):
    """An event to send by hand, and why; the same idempotency key gives the same event id."""

    data: dict[str, object]
    reason: Annotated[str, Field(min_length=1, max_length=2_000)]
    idempotency_key: Annotated[str | None, Field(min_length=1, max_length=200)] = None


def add_events(app: FastAPI, log: EventLog) -> None:
    """Add the route that sends events."""

    @app.post("/events/{event_type}", status_code=201)
    @allow(Role.OPERATOR)
    async def send(event_type: str, request: Sending, caller: Caller) -> dict[str, object]:
        """Send an external event."""
        event = event_of(log.choreography.event(event_type), request.data)
        place = await send_event(log, event, caller.by, request.reason, request.idempotency_key)
        at = {"topic": place.topic, "partition": place.partition, "offset": place.offset}
        return {"type": event_type, "key": key_of(event), **at}
