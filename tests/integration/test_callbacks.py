"""Callbacks over HTTP: a bank that answers 202 reports later, and what it reports is on the log before it is answered."""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime

import httpx
import pytest
from fastapi import FastAPI, Request, Response
from standardwebhooks import Webhook

from eventlib import Event, EventLog, Runtime, WiringError, open_log
from eventlib.errors import LogUnavailable
from eventlib.http import Metrics, answer_problems
from eventlib.identity import guard, identity_of
from eventlib.model.event import contract_of
from eventlib.replay import history, replay
from eventlib.webhooks import (
    STANDARD_WEBHOOKS,
    STRIPE,
    SignatureScheme,
    SigningSecret,
    TimestampedSignature,
    callback_route,
)
from examples.transfers import app as transfers
from examples.transfers.bank import HttpBank, callbacks, reported
from examples.transfers.purchases import (
    PurchasePaid,
    PurchaseSubmitted,
    TransferConfirmed,
    TransferRequested,
    purchases,
)
from tests.contract.outsides import serving

OLD, NEW = SigningSecret.new(), SigningSecret.new()
PAID = {"type": "transfer.confirmed", "purchase_id": "P1"}
BODY = json.dumps(PAID).encode()


class Bank:
    """A bank that answers 202, and reports with the reference library of Standard Webhooks, each report twice."""

    def __init__(self) -> None:
        self.app = FastAPI()
        self.reports_to = ""
        self.answers: list[int] = []
        self._reporting = set[asyncio.Task[None]]()
        self.app.post("/transfers", status_code=202)(self.transfer)

    async def transfer(self, request: Request) -> Response:
        asked = await request.json()
        key = request.headers["idempotency-key"]
        self._reporting.add(asyncio.create_task(self._report(key, asked["purchase_id"])))
        return Response(status_code=202)

    async def _report(self, key: str, purchase_id: str) -> None:
        body, at = json.dumps({**PAID, "purchase_id": purchase_id}), datetime.now(UTC)
        signature = Webhook(OLD.reveal()).sign(key, at, body)
        headers = {"webhook-id": key, "webhook-timestamp": str(int(at.timestamp())), "webhook-signature": signature}
        async with httpx.AsyncClient() as client:
            for _ in range(2):
                answer = await client.post(
                    self.reports_to, content=body, headers={**headers, "content-type": "application/json"}
                )
                self.answers.append(answer.status_code)


def desk(log: EventLog, scheme: SignatureScheme = STANDARD_WEBHOOKS, metrics: Metrics | None = None) -> FastAPI:
    """Return an API whose callers need an identity, but for the bank."""
    made = FastAPI(docs_url=None, redoc_url=None)
    answer_problems(made, "urn:transfers:problem:")
    guard(made, identity_of())
    routes = callback_route(log, "/callbacks/bank", reported, secrets=[NEW, OLD], scheme=scheme, metrics=metrics)
    made.include_router(routes)
    return made


@asynccontextmanager
async def asked(made: FastAPI) -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(transport=httpx.ASGITransport(made), base_url="http://localhost") as client:
        yield client


async def report(client: httpx.AsyncClient, headers: Mapping[str, str], body: bytes) -> httpx.Response:
    content = {"content-type": "application/json"}
    return await client.post("/callbacks/bank", content=body, headers={**headers, **content})


async def on_log(log: EventLog, event: type[Event]) -> list[Event]:
    """Return the events of a class that are on the log."""
    topic = contract_of(event).topic
    read = [await log.port.read(topic.name, each, 0, 1_000) for each in range(topic.partitions)]
    found = [log.decode(record) for records in read for record in records]
    return [each for each in found if isinstance(each, event)]


async def test_a_transfer_is_accepted_confirmed_later_and_paid_once() -> None:
    bank = Bank()
    async with open_log("memory://", transfers) as log, serving(bank.app) as bank_url, serving(desk(log)) as url:
        bank.reports_to = f"{url}/callbacks/bank"
        async with Runtime(log, ports={"bank": HttpBank(bank_url)}), asyncio.timeout(30):
            await log.publish(PurchaseSubmitted(purchase_id="P1", amount_cents=100))
            while len(bank.answers) < 2 or not await on_log(log, PurchasePaid):
                await asyncio.sleep(0.02)
        assert bank.answers == [204, 204]
        assert len(await on_log(log, TransferConfirmed)) == 2  # both are on the log, and one counts
        assert len(await on_log(log, TransferRequested)) == len(await on_log(log, PurchasePaid)) == 1
        assert (await replay(log)).same
        kinds = [(step.kind, step.input and step.input.type) async for step in history(log, purchases, "P1")]
        confirmed = [kind for kind, name in kinds if name == "TransferConfirmed"]
        assert sorted(confirmed) == ["dropped", "handled"]


def signed(body: bytes, scheme: SignatureScheme = STANDARD_WEBHOOKS, secret: SigningSecret = NEW) -> dict[str, str]:
    return scheme.sign([secret], "m-1", int(time.time()), body)


async def test_what_is_not_signed_right_or_is_old_is_refused_and_not_on_the_log() -> None:
    async with open_log("memory://", transfers) as log, asked(desk(log)) as client:
        old = STANDARD_WEBHOOKS.sign([NEW], "m-1", int(time.time()) - 400, BODY)
        for headers in ({}, signed(BODY, secret=SigningSecret.new()), signed(BODY + b" "), old):
            answer = await report(client, headers, BODY)
            assert answer.status_code == 401
            assert answer.json()["type"] == "urn:transfers:problem:signature-refused"
            assert not any(secret.reveal() in answer.text for secret in (NEW, OLD))
        assert await on_log(log, TransferConfirmed) == []


@pytest.mark.parametrize(
    "body", [b"", b"{", b"[]", b'{"type": "transfer.confirmed"}', b'{"type": "transfer.confirmed", "purchase_id": ""}']
)
async def test_what_no_event_can_be_made_of_is_refused_for_good(body: bytes) -> None:
    async with open_log("memory://", transfers) as log, asked(desk(log)) as client:
        answer = await report(client, signed(body), body)
        assert answer.status_code == 422
        assert await on_log(log, TransferConfirmed) == []


@pytest.mark.parametrize(
    ("headers", "body", "status"), [({}, b"x" * 1_000_001, 413), ({"content-encoding": "gzip"}, BODY, 415)]
)
async def test_what_is_too_large_or_compressed_is_refused_before_its_signature(
    headers: dict[str, str], body: bytes, status: int
) -> None:
    async with open_log("memory://", transfers) as log, asked(desk(log)) as client:
        assert (await report(client, headers, body)).status_code == status


async def test_it_is_answered_only_when_it_is_on_the_log(monkeypatch: pytest.MonkeyPatch) -> None:
    metrics = Metrics("bank")
    async with open_log("memory://", transfers) as log, asked(desk(log, metrics=metrics)) as client:

        async def away(_records: object) -> list[int]:
            raise LogUnavailable("away")

        with monkeypatch.context() as patched:
            patched.setattr(log.port, "append", away)
            answer = await report(client, signed(BODY), BODY)
        assert answer.status_code == 503
        assert answer.headers["retry-after"] == "1"
        assert (await report(client, signed(BODY), BODY)).status_code == 204
        assert await on_log(log, TransferConfirmed) == [TransferConfirmed(purchase_id="P1")]
    assert "bank_callbacks_accepted_total 1" in metrics.text({})


@pytest.mark.parametrize("scheme", [STRIPE, TimestampedSignature("Bank-Signature", "s1")])
async def test_where_the_scheme_signs_no_id_the_body_has_it(scheme: SignatureScheme) -> None:
    async with open_log("memory://", transfers) as log, asked(desk(log, scheme=scheme)) as client:
        body = json.dumps({**PAID, "id": "evt-1"}).encode()
        assert [(await report(client, signed(body, scheme), body)).status_code for _ in range(2)] == [204, 204]
        assert (await report(client, signed(BODY, scheme), BODY)).status_code == 422  # it has none
        records = await log.port.read("purchase.callbacks", log.choreography.topics[0].partition_of(b"P1"), 0, 10)
        assert len(records) == 2
        assert len({record.event_id for record in records}) == 1


async def test_a_callback_that_could_count_twice_or_that_nothing_signs_is_refused_at_the_start() -> None:
    def paid(_body: bytes) -> PurchasePaid | None: ...

    async with open_log("memory://", transfers) as log:
        with pytest.raises(WiringError, match="PurchasePaid is not a request of transfers"):
            callback_route(log, "/callbacks/bank", paid, secrets=[NEW])
        with pytest.raises(WiringError, match="no secret is given"):
            callbacks(log, [])
        with pytest.raises(WiringError, match="base64"):
            callbacks(log, [SigningSecret("whsec_!")])
