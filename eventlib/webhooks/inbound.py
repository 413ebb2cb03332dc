"""Takes CloudEvents over HTTP, signed, in each content mode, and answers when they are on the log."""

import asyncio
import time
from collections.abc import Mapping, Sequence

from fastapi import APIRouter, Request, Response

from eventlib.errors import ContractError, RetryableError, SignatureRefused, WiringError
from eventlib.eventlog import EventLog
from eventlib.http.problems import Refusal, documented, try_later
from eventlib.identity.principal import public
from eventlib.model.event import Event, contract_of
from eventlib.operations.sending import event_of, refuse_masked
from eventlib.publication import Publication
from eventlib.webhooks.cloudevents import CloudEvent, Content, events_of
from eventlib.webhooks.receiving import body_of
from eventlib.webhooks.secrets_file import Secrets, as_call
from eventlib.webhooks.signing import STANDARD_WEBHOOKS

_APPEND_S = 5.0
_MOST = 1_000


def cloud_events_route(log: EventLog, path: str, events: Sequence[type[Event]], *, secrets: Secrets) -> APIRouter:
    """Return a router with `POST path`: signed CloudEvents, one or a batch, are put on the log as events of these classes.

    An event's `type` is its class's name, its `data` are the fields; each class has `request=True`. `secrets` are those of
    Standard Webhooks: give two while one is replaced, or a `SecretsFile`. The sender needs no token: its signature is what lets it in.

    Guarantee: answered with 204 only when all of them are on the log; of a batch all are, or none. The same source and id
    give the same event id, so that the event is handled once, however often it is sent. 400: no CloudEvents; 401: the
    signature or its time is wrong; 422: no event could be made of one; 503: send them again. Raises: WiringError for other
    classes, and for secrets that cannot sign.
    """
    for event in events:
        if event not in log.choreography.events or not contract_of(event).request:
            raise WiringError(
                f"CloudEvents at {path}: {event.__name__} is not a request of {log.choreography.name}: declare it with "
                "request=True, and handle it in a decider, or one that comes twice counts twice"
            )
    given = as_call(secrets, STANDARD_WEBHOOKS, f"CloudEvents at {path}")
    known = {contract_of(event).type: event for event in events}
    routes = APIRouter(tags=["events"])

    @routes.post(
        path, status_code=204, responses=documented(400, 401, 413, 415, 422, 503), summary=f"CloudEvents {path}"
    )
    @public
    async def take(request: Request) -> Response:
        """Put CloudEvents on the log; repeating it is safe."""
        content = Content(await body_of(request), {name.lower(): value for name, value in request.headers.items()})
        try:
            STANDARD_WEBHOOKS.verify(given(), content.headers, content.body, time.time())
        except SignatureRefused as error:
            raise Refusal(401, "signature-refused", str(error)) from error
        await _put(log, _publications(content, known))
        return Response(status_code=204)

    return routes


def _publications(content: Content, known: Mapping[str, type[Event]]) -> list[Publication]:
    try:
        found = events_of(content)
    except ContractError as error:
        raise Refusal(400, "no-cloudevents", str(error)) from error
    if len(found) > _MOST:
        raise Refusal(422, "unreadable", f"a batch has {_MOST:,} events at most, and this one has {len(found):,}")
    try:
        return [_publication(each, known) for each in found]
    except ContractError as error:
        raise Refusal(422, "unreadable", str(error)) from error


def _publication(found: CloudEvent, known: Mapping[str, type[Event]]) -> Publication:
    if found.type not in known:
        raise ContractError(f"type {found.type!r:.60} is not taken here: send {', '.join(known)}")
    event = event_of(known[found.type], found.data)
    refuse_masked(event)
    return Publication(event, f"cloudevent\x1f{found.source}\x1f{found.id}")


async def _put(log: EventLog, publications: Sequence[Publication]) -> None:
    try:
        async with asyncio.timeout(_APPEND_S):
            await log.publish_many(publications)
    except ContractError as error:
        raise Refusal(422, "unreadable", str(error)) from error
    except (RetryableError, TimeoutError) as error:
        raise try_later(
            "outcome-unknown", "the log did not say whether it has taken this: send it again with the same ids"
        ) from error
