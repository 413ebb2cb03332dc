"""CloudEvents that come over HTTP are on the log when they are answered, and count once."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any

import httpx
import pytest
from cloudevents.core.bindings.http import HTTPMessage, to_binary_event, to_structured_event
from cloudevents.core.v1.event import CloudEvent
from fastapi import FastAPI
from standardwebhooks import Webhook

from eventlib import EventLog, WiringError, open_log
from eventlib.errors import LogUnavailable
from eventlib.http import answer_problems
from eventlib.http.gate import guard
from eventlib.identity.identity import identity_of
from eventlib.model.event import Event
from eventlib.model.record import Record
from eventlib.webhooks.receiving import cloud_events_route
from eventlib.webhooks.signing import SigningSecret
from tests.handling import handle_all
from tests.integration.webhook_app import APP, LAST, Counted, Ended
from tests.webhook_receiver import SECRET


def event_of(number: int, event_id: str = "1", **changes: Any) -> CloudEvent:
    attributes = {"id": event_id, "source": "/partner", "type": "Counted", "specversion": "1.0", **changes}
    return CloudEvent({**attributes, "datacontenttype": "application/json"}, {"counter": "a", "number": number})


def batch_of(*events: CloudEvent) -> HTTPMessage:
    bodies = [json.loads(to_structured_event(each).body) for each in events]
    return HTTPMessage({"content-type": "application/cloudevents-batch+json"}, json.dumps(bodies).encode())


@asynccontextmanager
async def serving() -> AsyncIterator[tuple[EventLog, httpx.AsyncClient]]:
    async with open_log("memory://", APP) as log:
        app = FastAPI(docs_url=None, redoc_url=None)
        app.include_router(cloud_events_route(log, "/events", [Counted], secrets=[SigningSecret(SECRET)]))
        answer_problems(app, "urn:test:problem:")
        guard(app, identity_of())
        transport = httpx.ASGITransport(app, raise_app_exceptions=True)
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
            yield log, client


async def post(client: httpx.AsyncClient, message: HTTPMessage, secret: str = SECRET) -> httpx.Response:
    now = datetime.now(UTC)
    signed = {
        "webhook-id": "msg_1",
        "webhook-timestamp": str(int(now.timestamp())),
        "webhook-signature": Webhook(secret).sign("msg_1", now, message.body.decode()),
    }
    return await client.post("/events", content=message.body, headers={**message.headers, **signed})


async def counted(log: EventLog) -> list[Record]:
    found = [record for part in range(8) for record in await log.port.read("counts.made", part, 0, 1_000)]
    return [record for record in found if record.type == "Counted"]


async def test_each_content_mode_is_on_the_log_when_it_is_answered() -> None:
    async with serving() as (log, client):
        for number, message in enumerate(
            (
                to_structured_event(event_of(1, "1")),
                to_binary_event(event_of(2, "2")),
                batch_of(event_of(3, "3"), event_of(4, "4")),
            )
        ):
            answer = await post(client, message)
            assert (answer.status_code, answer.content) == (204, b"")
            assert len(await counted(log)) == [1, 2, 4][number]
        events = [log.decode(record) for record in await counted(log)]
        assert [event.number for event in events if isinstance(event, Counted)] == [1, 2, 3, 4]


async def test_an_event_that_is_sent_again_counts_once() -> None:
    async with serving() as (log, client):
        for message in (
            to_structured_event(event_of(LAST)),
            to_binary_event(event_of(LAST)),
            batch_of(event_of(LAST), event_of(LAST)),
        ):
            assert (await post(client, message)).status_code == 204
        other = to_structured_event(event_of(1, source="/other"))
        assert (await post(client, other)).status_code == 204
        assert len({record.id for record in await counted(log)}) == 2  # by source and id
        await handle_all(log)
        found = [record.type for part in range(8) for record in await log.port.read("counts.made", part, 0, 1_000)]
        assert found.count("Ended") == 1


@pytest.mark.parametrize(
    ("message", "status", "sentence"),
    [
        (HTTPMessage({"content-type": "application/json"}, b"{}"), 400, "send application/cloudevents"),
        (to_structured_event(event_of(1, type="Ended")), 422, "type 'Ended' is not taken here: send Counted"),
        (batch_of(event_of(1), event_of(2, type="Ended")), 422, "type 'Ended' is not taken here"),
        (to_structured_event(CloudEvent({"id": "1", "source": "/", "type": "Counted", "specversion": "1.0"}, {"counter": "a"})), 422, "field number"),
        (batch_of(*[event_of(each, str(each)) for each in range(1_001)]), 422, "1,000 events at most"),
        (HTTPMessage({"content-type": "application/cloudevents+json"}, b" " * 1_000_001), 413, "1,000,000 bytes at most"),
    ],
)  # fmt: skip
async def test_what_cannot_be_an_event_is_refused_with_a_sentence(
    message: HTTPMessage, status: int, sentence: str
) -> None:
    async with serving() as (log, client):
        answer = await post(client, message)
        assert (answer.status_code, answer.headers["content-type"]) == (status, "application/problem+json")
        assert sentence in answer.json()["detail"]
        assert await counted(log) == []


async def test_without_a_right_signature_nothing_is_taken() -> None:
    async with serving() as (log, client):
        message = to_structured_event(event_of(1))
        other = "whsec_" + "YW5vdGhlciBzZWNyZXQgb2YgdGhlIHRlc3RzISEhISE="
        assert (await post(client, message, other)).status_code == 401
        assert (await client.post("/events", content=message.body, headers=message.headers)).status_code == 401
        assert await counted(log) == []


async def test_a_log_that_does_not_answer_is_a_503(monkeypatch: pytest.MonkeyPatch) -> None:
    async with serving() as (log, client):

        async def append(*_: object) -> list[int]:
            raise LogUnavailable("the disk is away")

        monkeypatch.setattr(log.port, "append", append)
        answer = await post(client, to_structured_event(event_of(1)))
        assert answer.status_code == 503
        assert "send it again under the same id" in answer.json()["detail"]


async def test_what_a_route_cannot_take_is_refused_when_it_is_made() -> None:
    async with open_log("memory://", APP) as log:
        event: type[Event] = Ended
        with pytest.raises(WiringError, match="Ended is not a request of counting: declare it with request=True"):
            cloud_events_route(log, "/events", [event], secrets=[SigningSecret(SECRET)])
        with pytest.raises(WiringError, match="no secret is given"):
            cloud_events_route(log, "/events", [Counted], secrets=[])
