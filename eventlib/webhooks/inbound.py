"""Takes CloudEvents over HTTP, signed, in each content mode, and answers when they are on the log."""

from collections.abc import Mapping, Sequence

from fastapi import APIRouter

from eventlib.errors import ContractError
from eventlib.eventlog import EventLog
from eventlib.http.problems import Refusal
from eventlib.model.event import Event, contract_of
from eventlib.operations.sending import event_of, refuse_masked
from eventlib.publication import Publication
from eventlib.webhooks.cloudevents import CloudEvent, Content, events_of
from eventlib.webhooks.receiving import Receiver
from eventlib.webhooks.secrets_file import Secrets

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
