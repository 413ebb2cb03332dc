"""The routes that `SagaApi.resource` makes of two functions, and what it refuses."""

from dataclasses import dataclass

import pytest
from pydantic import BaseModel

from eventlib import Choreography, Decider, Event, Runtime, Service, WiringError, open_log, replace
from eventlib.http import SagaApi
from eventlib.queries import SagaIndex
from eventlib.testing import client_of


class SeatRequested(Event, topic="seat.requests", key="seat_id", request=True):
    seat_id: str
    row: int


class SeatHeld(Event, topic="seats", key="seat_id"):
    seat_id: str
    row: int


class SeatLeft(Event, topic="seat.requests", key="seat_id", request=True):
    seat_id: str


class SeatFreed(Event, topic="seats", key="seat_id", final=True):
    seat_id: str


@dataclass(frozen=True)
class Seat:
    row: int = 0


seats = Decider("seat", state=Seat, key="seat_id")


@seats.evolve
def evolve(seat: Seat, event: Event) -> Seat:
    return replace(seat, row=event.row) if isinstance(event, SeatHeld) else seat


@seats.on
def hold(_seat: Seat, request: SeatRequested) -> list[SeatHeld]:
    return [SeatHeld(seat_id=request.seat_id, row=request.row)]


@seats.on
def free(_seat: Seat, request: SeatLeft) -> list[SeatFreed]:
    return [SeatFreed(seat_id=request.seat_id)]


app = Choreography("hall", [Service("seats", deciders=[seats])])


class Wanted(BaseModel, extra="forbid"):
    row: int


class Shown(BaseModel):
    row: int


def requested(seat_id: str, wanted: Wanted) -> SeatRequested:
    return SeatRequested(seat_id=seat_id, row=wanted.row)


def shown(seat: Seat) -> Shown:
    return Shown(row=seat.row)


async def test_a_saga_begins_once_is_read_and_ends_with_its_final_event() -> None:
    async with open_log("memory://", app) as log, Runtime(log) as runtime:
        api = SagaApi(SagaIndex(log, seats), SeatRequested, name="hall")
        async with client_of(api.include(api.resource("/seats", requested, shown))) as client:
            once = {"Idempotency-Key": "mine"}
            first, again = [await client.post("seats", json={"row": 3}, headers=once) for _ in range(2)]
            assert (first.status_code, first.json()) == (202, again.json())
            seat_id, position = first.json()["seat_id"], first.json()["position"]
            assert first.headers["Location"] == f"/seats/{seat_id}"
            read = await client.get(f"seats/{seat_id}", params={"min_position": position})
            assert read.json() == {"row": 3}
            assert "Staleness-Ms" in read.headers
            assert (await client.post("seats", json={"row": 4}, headers=once)).status_code == 422
            assert (await client.post("seats", json={"column": 4})).status_code == 422
            assert (await client.get("seats/none")).json()["type"] == "urn:hall:problem:unknown-seat"
            assert not api.events.has_ended(seat_id)
            await log.publish(SeatLeft(seat_id=seat_id))
            await runtime.idle()
            told = (await client.get(f"seats/{seat_id}/events")).text  # it ends, since the saga has
            assert "event: SeatFreed" in told
            assert api.events.has_ended(seat_id)
            paths = (await client.get("openapi.json")).json()["paths"]
            assert paths["/seats"]["post"]["requestBody"]["content"]["application/json"]["schema"]["$ref"].endswith(
                "/Wanted"
            )
            assert paths["/seats/{seat_id}"]["get"]["parameters"][0]["name"] == "seat_id"


async def test_functions_without_models_are_refused() -> None:
    async with open_log("memory://", app) as log:
        api = SagaApi(SagaIndex(log, seats), SeatRequested, name="hall")

        def of_nothing(seat_id: str) -> SeatRequested:
            return SeatRequested(seat_id=seat_id, row=1)

        def of_a_mapping(seat: Seat) -> dict[str, int]:
            return {"row": seat.row}

        with pytest.raises(WiringError, match="of_nothing is annotated with no model"):
            api.resource("/seats", of_nothing, shown)  # type: ignore[arg-type]  # a type checker sees it, too
        with pytest.raises(WiringError, match="of_a_mapping is annotated with no model"):
            api.resource("/seats", requested, of_a_mapping)  # type: ignore[arg-type]  # here, too
