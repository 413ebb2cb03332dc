"""Takes callbacks and CloudEvents of external systems: signed requests, put on the log as events before they are answered."""

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from fastapi import APIRouter, Request, Response
from pydantic import ValidationError

from eventlib.errors import ContractError, RetryableError, SignatureRefused, WiringError
from eventlib.eventlog import EventLog
from eventlib.ground.body_limit import RefusedEncoding, compression_of
from eventlib.ground.pydantic_errors import sentence_of
from eventlib.ground.strict_json import decode_json
from eventlib.http.problems import Refusal, documented, try_later
from eventlib.http.traffic import Metrics
from eventlib.identity.principal import public
from eventlib.model.event import Event, contract_of
from eventlib.model.signatures import name_of, reports
from eventlib.operations.sending import event_of, refuse_masked
from eventlib.publication import Publication
from eventlib.webhooks.cloudevents import CloudEvent, Content, events_of
from eventlib.webhooks.secrets_file import Secrets, as_call
from eventlib.webhooks.signing import STANDARD_WEBHOOKS, TOLERANCE_S, SignatureScheme

_APPEND_S = 5.0
_LONGEST_ID = 500
_MOST_BYTES = 1_000_000
_MOST = 1_000
_COUNTERS = {
    "callbacks_accepted": "Callbacks that are on the log, repeated ones included.",
    "callbacks_ignored": "Callbacks with a right signature that are about something else.",
    "callbacks_unsigned": "Callbacks refused for their signature, or its time.",
    "callbacks_unreadable": "Callbacks with a right signature that no event could be made of.",
}


Read = Callable[[Mapping[str, str], bytes, str | None], Sequence[Publication]]
"""Makes publications of a request's headers and body, and of the id that is signed. Raises: ContractError or ValueError."""


@dataclass(frozen=True, slots=True)
class Receiver:
    """Puts signed requests on the log; `where` names it in errors of its declaration.

    Guarantee: a body is bounded, and not read before its signature is right; answered with 204 only when all that it
    brings is on the log. Raises: WiringError for events that are not requests.
    """

    log: EventLog
    where: str
    events: Iterable[type[Event]]
    secrets: Secrets
    read: Read
    scheme: SignatureScheme = STANDARD_WEBHOOKS
    tolerance_s: float = TOLERANCE_S
    metrics: Metrics | None = None

    def add_to(self, routes: APIRouter, path: str, summary: str, statuses: Sequence[int]) -> APIRouter:
        """Add `POST path` to routes, and return them. Raises: WiringError, also for secrets that cannot sign."""
        for event in self.events:
            if event not in self.log.choreography.events or not contract_of(event).request:
                raise WiringError(
                    f"{self.where}: {event.__name__} is not a request of {self.log.choreography.name}: declare it with "
                    "request=True, and handle it in a decider, or one that comes twice counts twice"
                )
        secrets = as_call(self.secrets, self.scheme, self.where)
        metrics = self.metrics or Metrics("callbacks")
        for name, text in _COUNTERS.items():
            metrics.declare(name, text)

        @routes.post(path, status_code=204, responses=documented(*statuses), summary=summary)
        @public
        async def take(request: Request) -> Response:
            """Put what an external system reports on the log; repeating it is safe."""
            body = await _body_of(request)
            try:
                signed = self.scheme.verify(secrets(), request.headers, body, time.time(), self.tolerance_s)
            except SignatureRefused as error:
                metrics.count("callbacks_unsigned")
                raise Refusal(401, "signature-refused", str(error)) from error
            try:
                publications = self.read(request.headers, body, signed.id)
                async with asyncio.timeout(_APPEND_S):
                    await self.log.publish_many(publications)
            except (RetryableError, TimeoutError) as error:
                raise try_later(
                    "outcome-unknown", "the log did not say whether it has taken this: send it again under the same id"
                ) from error
            except (ContractError, ValueError) as error:
                metrics.count("callbacks_unreadable")
                why = sentence_of(error) if isinstance(error, ValidationError) else str(error)
                raise Refusal(422, "unreadable", f"no event can be made of the body: {why:.300}") from error
            metrics.count("callbacks_accepted" if publications else "callbacks_ignored")
            return Response(status_code=204)

        return routes


async def _body_of(request: Request) -> bytes:
    """Return a body byte for byte, since that is what is signed; anyone may send one, so it is bounded. Raises: Refusal."""
    if (encoding := compression_of(request)) is not None:
        raise RefusedEncoding(encoding)
    found = bytearray()
    async for piece in request.stream():
        found += piece
        if len(found) > _MOST_BYTES:
            raise Refusal(413, "too-large", f"a body has {_MOST_BYTES:,} bytes at most")
    return bytes(found)


def callback_route(  # noqa: PLR0913  what an external system may do in its own way
    log: EventLog,
    path: str,
    read: Callable[[bytes], Event | None],
    *,
    secrets: Secrets,
    scheme: SignatureScheme = STANDARD_WEBHOOKS,
    id_member: str = "id",
    tolerance_s: float = TOLERANCE_S,
    metrics: Metrics | None = None,
) -> APIRouter:
    """Return a router with `POST path`: what comes with a right signature is put on the log as the event that `read` makes of it.

    `read` takes the body and returns one of the events that its return type names, each with `request=True`, or None for
    what is about something else; a ValueError says that the body is not as agreed. `secrets` are the newest first: give two
    while one is replaced, or a `SecretsFile`. `id_member` names the id in the JSON body, where the scheme signs none. Counters go to `metrics`.
    The sender needs no token: its signature is what lets it in.

    Guarantee: a body is bounded, and not parsed before its signature is right; answered with 204 only when it is on the log. The
    same id gives the same event id, so that its decider handles it once, for as long as the event's `once_for`. 401: the
    signature or its time is wrong; 413: more than 1,000,000 bytes; 422: no event could be made of it;
    503: send it again. Raises: WiringError for events that cannot be put so, and for secrets that cannot sign.
    """
    where = f"callback {path}, {name_of(read)}"

    def publications(_: Mapping[str, str], body: bytes, signed: str | None) -> Sequence[Publication]:
        event = read(body)
        return [] if event is None else [Publication(event, f"callback{path}/{_id(signed, body, id_member)}")]

    receiver = Receiver(log, where, reports(read, where, 2), secrets, publications, scheme, tolerance_s, metrics)
    return receiver.add_to(APIRouter(tags=["callbacks"]), path, f"Callback {path}", (401, 413, 415, 422, 503))


def _id(signed: str | None, body: bytes, id_member: str) -> str:
    """Return the id under which something is reported, however often it is sent. Raises: ValueError."""
    found = signed
    if found is None:
        content = decode_json(body.decode())
        found = content.get(id_member) if isinstance(content, dict) else None
    if not (isinstance(found, str) and 0 < len(found) <= _LONGEST_ID):
        raise ValueError(f"member {id_member!r} is not an id of 1 to {_LONGEST_ID} characters")
    return found


def cloud_events_route(log: EventLog, path: str, events: Sequence[type[Event]], *, secrets: Secrets) -> APIRouter:
    """Return a router with `POST path`: signed CloudEvents, one or a batch, are put on the log as events of these classes.

    An event's `type` is its class's name, its `data` are the fields; each class has `request=True`. `secrets` are those of
    Standard Webhooks: give two while one is replaced, or a `SecretsFile`. The sender needs no token: its signature is what lets it in.

    Guarantee: answered with 204 only when all of them are on the log; of a batch all are, or none. The same source and id
    give the same event id, so that the event is handled once, however often it is sent. 400: no CloudEvents; 401: the
    signature or its time is wrong; 422: no event could be made of one; 503: send them again. Raises: WiringError for other
    classes, and for secrets that cannot sign.
    """
    known = {contract_of(event).type: event for event in events}

    def publications(headers: Mapping[str, str], body: bytes, _: str | None) -> Sequence[Publication]:
        try:
            found = events_of(Content(body, {name.lower(): value for name, value in headers.items()}))
        except ContractError as error:
            raise Refusal(400, "no-cloudevents", str(error)) from error
        if len(found) > _MOST:
            raise ContractError(f"a batch has {_MOST:,} events at most, and this one has {len(found):,}")
        return [_publication(each, known) for each in found]

    receiver = Receiver(log, f"CloudEvents at {path}", events, secrets, publications)
    return receiver.add_to(APIRouter(tags=["events"]), path, f"CloudEvents {path}", (400, 401, 413, 415, 422, 503))


def _publication(found: CloudEvent, known: Mapping[str, type[Event]]) -> Publication:
    if found.type not in known:
        raise ContractError(f"type {found.type!r:.60} is not taken here: send {', '.join(known)}")
    event = event_of(known[found.type], found.data)
    refuse_masked(event)
    return Publication(event, f"cloudevent\x1f{found.source}\x1f{found.id}")
