"""What an API keeps of the bodies of requests with personal data: a repeat is known by it, and nothing can be guessed."""

import asyncio
from base64 import b64encode
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from hashlib import blake2b, sha1, sha256
from pathlib import Path
from typing import Annotated

import httpx
import pytest
from pydantic import BaseModel

from eventlib import Choreography, Decider, Event, EventLog, Runtime, Service, open_log
from eventlib.http import SagaApi
from eventlib.model.record import Record
from eventlib.operations.erasure import forget, receipts
from eventlib.personal import ERASED, Personal
from eventlib.personal.receipt import NOT_COVERED
from eventlib.queries import SagaIndex
from eventlib.testing import client_of
from tests.integration.planted_people import erased, guessed_in, key_store

ADA = {
    "sender": "c1",
    "name": "Ada Lovelace",
    "street": "12 St James Square",
    "receiver": "c2",
    "to": "Mary Somerville",
}
CHANGED = ADA | {"street": "13 St James Square"}


class ParcelAsked(Event, topic="parcel.requests", key="parcel_id", request=True):
    parcel_id: str
    sender: str | None
    name: Annotated[str, Personal(subject="sender")]
    street: Annotated[str, Personal(subject="sender")]
    receiver: str
    to: Annotated[str, Personal(subject="receiver")]


class ParcelTaken(Event, topic="parcels", key="parcel_id"):
    parcel_id: str


@dataclass(frozen=True)
class Parcel:
    is_taken: bool = False


parcels = Decider("parcel", state=Parcel, key="parcel_id")


@parcels.evolve
def evolve(parcel: Parcel, event: Event) -> Parcel:
    return Parcel(is_taken=True) if isinstance(event, ParcelTaken) else parcel


@parcels.on
def take(_parcel: Parcel, asked: ParcelAsked) -> list[ParcelTaken]:
    return [ParcelTaken(parcel_id=asked.parcel_id)]


app = Choreography("parcels", [Service("parcels", deciders=[parcels])])


class Wanted(BaseModel):
    sender: str
    name: str
    street: str
    receiver: str
    to: str


class Shown(BaseModel):
    is_taken: bool


def asked(parcel_id: str, wanted: Wanted) -> ParcelAsked:
    return ParcelAsked(parcel_id=parcel_id, **wanted.model_dump())


def shown(parcel: Parcel) -> Shown:
    return Shown(is_taken=parcel.is_taken)


@asynccontextmanager
async def api_of(url: str) -> AsyncIterator[tuple[EventLog, SagaApi[ParcelAsked], httpx.AsyncClient]]:
    async with open_log(url, app) as log, Runtime(log), served(log) as (api, client):
        yield log, api, client


@asynccontextmanager
async def served(log: EventLog) -> AsyncIterator[tuple[SagaApi[ParcelAsked], httpx.AsyncClient]]:
    api = SagaApi(SagaIndex(log, parcels), ParcelAsked, name="parcels")
    async with client_of(api.include(api.resource("/parcels", asked, shown))) as client:
        yield api, client


async def answered(client: httpx.AsyncClient, body: dict[str, str], key: str = "mine") -> tuple[int, str]:
    answer = await client.post("parcels", json=body, headers={"Idempotency-Key": key})
    return answer.status_code, answer.json()["parcel_id"]


async def requests_of(log: EventLog) -> list[Record]:
    return [each for partition in range(8) for each in await log.port.read("parcel.requests", partition, 0, 100)]


def guessed(directory: Path) -> list[str]:
    """Return which files have a hash of ADA's texts or body."""
    return guessed_in(directory, ADA["name"], ADA["street"], ADA["to"], ADA)


@pytest.mark.parametrize("subject", ["c1", "c2"])
async def test_no_hash_of_a_body_outlives_any_of_its_subjects(letters_url: str, tmp_path: Path, subject: str) -> None:
    async with api_of(letters_url) as (log, _, client):
        first = await answered(client, ADA)
        assert first[0] == 202
        assert await answered(client, ADA) == first
        assert await answered(client, CHANGED) == (422, first[1])
        await erased(log, letters_url, subject)
        await asyncio.sleep(0.1)  # so long a process may still have a key
        assert (await receipts(log.port))[0].not_covered == NOT_COVERED
        for body in (ADA, CHANGED):  # which of them it was can no longer be known
            assert await answered(client, body) == first
        again = await answered(client, ADA, "a new one")
        assert again[0] == 202
        assert await answered(client, CHANGED, "a new one") == again
        (header,) = {dict(each.headers)["http-body"] for each in await requests_of(log) if each.subject == again[1]}
        assert header.decode() == ERASED
    assert guessed(tmp_path) == []


async def test_a_request_without_an_idempotency_key_keeps_nothing_of_its_body(letters_url: str) -> None:
    async with api_of(letters_url) as (log, _, client):
        assert (await client.post("parcels", json=ADA)).status_code == 202
        assert [each.headers for each in await requests_of(log)] == [()]


async def test_a_process_that_cannot_decrypt_takes_no_body_for_another(letters_url: str) -> None:
    async with api_of(letters_url) as (_, _, client):
        first = await answered(client, ADA)
        async with open_log(letters_url, app, read_only=True) as masked, served(masked) as (_, other):
            assert await answered(other, CHANGED) == first


async def test_what_an_earlier_version_wrote_is_known_again_and_named_in_the_receipt(letters_url: str) -> None:
    old = blake2b(Wanted(**ADA).model_dump_json().encode(), digest_size=16).hexdigest()
    async with api_of(letters_url) as (log, api, client):
        parcel_id = api.requests.key_for("mine")
        event = asked(parcel_id, Wanted(**ADA))
        await log.publish(event, headers={"http-body": old}, idempotency_key="http/parcel/mine")
        assert await answered(client, ADA) == (202, parcel_id)
        assert await answered(client, CHANGED) == (422, parcel_id)
        await answered(client, ADA | {"name": "Ada King"}, "another")
        with key_store(letters_url) as store:
            receipt = await forget(log.port, store, "c1", "asked", "ada")
            uncounted = await forget(log.port, store, "c2", "asked", "ada", count=False)
    (named,) = set(receipt.not_covered) - set(NOT_COVERED)
    assert "http-body of requests that an earlier version wrote (1 in parcel.requests)" in named
    assert "(if there are any)" in uncounted.not_covered[-1]


def test_the_search_finds_hashes_that_are_guessed(tmp_path: Path) -> None:
    for number, made in enumerate(
        (
            blake2b(Wanted(**ADA).model_dump_json().encode(), digest_size=16).hexdigest().encode(),
            sha256(ADA["name"].encode()).digest(),
            b64encode(sha1(ADA["name"].lower().encode(), usedforsecurity=False).digest()),
        )
    ):
        (tmp_path / f"{number}").write_bytes(b"head" + made + b"tail")
    assert len(guessed(tmp_path)) == 3
