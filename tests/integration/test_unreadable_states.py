"""States that today's code cannot read stop a start with what to do, and are rebuilt from the log by a command."""

from dataclasses import dataclass
from pathlib import Path

import pytest

from eventlib import Choreography, Decider, Event, EventLog, Service, open_log
from eventlib.errors import ContractError
from eventlib.model.states import replace
from eventlib.operations.reprocessing.cutover import switch
from eventlib.operations.reprocessing.metadata import RerunSpec
from eventlib.operations.reprocessing.running import rerunning
from eventlib.queries.state import state_of
from eventlib.state.memory import MemoryStores
from tests.golden.contracts import first
from tests.golden.contracts.first import DeliveryTold, ParcelAccepted, ParcelDelivered, ParcelHandedIn, Speed
from tests.handling import handle_all


@dataclass(frozen=True)
class Weights:
    """How heavy it is, in words: what the schema of a number does not become."""

    in_words: str = ""


def changed() -> Choreography:
    """Return the post with a state that has the old one's name, and can read nothing of it."""

    @dataclass(frozen=True)
    class Parcel:
        weight: Weights = Weights()

    parcels = Decider("parcel", state=Parcel, key="parcel_id")

    @parcels.evolve
    def evolve(parcel: Parcel, event: Event) -> Parcel:
        if isinstance(event, ParcelHandedIn):
            return replace(parcel, weight=Weights(f"{event.weight} g"))
        return parcel

    @parcels.on(ParcelHandedIn)
    def accept(_: Parcel, handed_in: ParcelHandedIn) -> list[ParcelAccepted]:
        dear = 2 if handed_in.speed is Speed.FAST else 1
        return [ParcelAccepted(parcel_id=handed_in.parcel_id, price=dear * handed_in.weight / 100)]

    @parcels.on(DeliveryTold)
    def deliver(_: Parcel, told: DeliveryTold) -> list[ParcelDelivered]:
        return [ParcelDelivered(parcel_id=told.parcel_id, signed=told.signed)]

    return Choreography("post", [Service("post", deciders=[parcels])])


async def run(log: EventLog, *events: Event) -> None:
    for event in events:
        await log.publish(event, idempotency_key=repr(event))
    await handle_all(log)


async def test_a_start_fails_and_a_rerun_builds_the_states_anew(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/log.db"
    async with open_log(url, first.post) as log:
        await run(log, *first.story())
        before = {topic: await log.port.end(topic, 7) for topic in await log.port.topics() if topic != "_schemas"}

    async with open_log(url, changed()) as log:
        with pytest.raises(ContractError, match=r"the state of parcel '[12]' cannot be read: .*`eventlib rerun post`"):
            await run(log)
        assert {topic: await log.port.end(topic, 7) for topic in before} == before, "nothing was written, or parked"

        service = log.choreography.service("post")
        async with rerunning(log, MemoryStores(), service, "anew", RerunSpec("the state is another", 0)) as anew:
            await switch(anew, "the state is another", runs_effects=False)
        await run(log, ParcelHandedIn(parcel_id="3", to="Alan, Manchester", weight=7, speed=Speed.SLOW))
        assert [(await state_of(log, "parcel", key)).state.weight.in_words for key in "123"] == [
            "450 g",
            "1200 g",
            "7 g",
        ]
        accepted = [r for p in range(8) for r in await log.port.read("parcels", p, 0, 99) if r.type == "ParcelAccepted"]
        assert len(accepted) == 3, "nothing was said twice"
