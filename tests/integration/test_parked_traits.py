"""Traits of a parked group: in common, and different from what passed, by the numbers; never by a personal field."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import pytest

from eventlib import Choreography, Decider, Event, EventLog, Service, open_log
from eventlib.model.personal import Personal
from eventlib.operations.parked_groups import grouped
from eventlib.operations.parked_traits import trait, traits_of
from eventlib.queries.parked import parkings
from eventlib.search import SagaSearch, Searchable
from tests.handling import handle_all


class ParcelSent(Event, topic="parcels.requests", key="parcel_id", request=True):
    parcel_id: str
    country: Annotated[str, Searchable]
    weight: int
    labels: tuple[str, ...] = ()
    name: Annotated[str, Personal(subject="parcel_id")] = "Ada"


class ParcelWeighed(Event, topic="parcels", key="parcel_id", final=True):
    parcel_id: str


@dataclass(frozen=True)
class Parcel:
    count: int = 0


scales = Decider("scales", state=Parcel, key="parcel_id")


@scales.evolve
def evolve(state: Parcel, event: Event) -> Parcel:
    del event
    return state


@scales.on(ParcelSent)
def weigh(state: Parcel, sent: ParcelSent) -> list[ParcelWeighed]:
    del state
    if sent.country == "EIRE":
        raise KeyError("no scales")
    return [ParcelWeighed(parcel_id=sent.parcel_id)]


app = Choreography("parcels", [Service("depot", deciders=[scales])])


@pytest.fixture
async def log(tmp_path: Path, master_key: Path) -> AsyncIterator[EventLog]:  # noqa: ARG001  the key has to be there
    async with open_log(f"sqlite:///{tmp_path}/log.db", app) as log:
        yield log


async def test_members_have_in_common_what_those_that_passed_have_not(log: EventLog) -> None:
    for number in range(60):
        is_eire = number % 6 == 0
        country = "EIRE" if is_eire else ("France", "Malta")[number % 2]
        weight = 900 + number if is_eire else number
        await log.publish(ParcelSent(parcel_id=f"P{number}", country=country, weight=weight, labels=("x",) * 2))
    await handle_all(log)
    (group,) = grouped(await parkings(log))
    async with SagaSearch(log) as index:
        assert await index.caught_up(60)
        traits = await traits_of(log, index, group)
    assert (traits.members, traits.passed) == (10, 50)
    found = {each.name: each for each in traits.found}
    assert (found["country"].value, found["country"].count, found["country"].passed_count) == ("EIRE", 10, 0)
    assert found["country"].differs
    assert (found["weight"].value, found["weight"].passed_count, found["weight"].differs) == ("900 to 954", 0, True)
    assert (found["labels, how many"].passed_count, found["labels, how many"].differs) == (50, False)
    assert {"parked on (UTC)", "code"} <= found.keys()
    assert not [each for each in traits.found if "name" in each.name or "Ada" in each.value or "parcel_id" in each.name]
    assert [each.name for each in traits.found][:2] == ["country", "weight"], "what differs comes first"


def test_a_difference_is_one_only_where_chance_does_not_explain_it() -> None:
    few = trait("country", ["EIRE"] * 2, ["EIRE", *["France"] * 9])
    assert few is not None
    assert not few.differs, "two of two may be chance where one in ten passed"
    assert trait("country", ["EIRE"] * 4, ["EIRE", *["France"] * 9]).differs  # type: ignore[union-attr]  # it is one
    assert not trait("country", ["EIRE"] * 25, ["EIRE"] * 95 + ["France"] * 5).differs  # type: ignore[union-attr]
    assert trait("country", ["EIRE", "France", "Malta"], []) is None
    assert trait("country", ["EIRE"], ["France"] * 20) is None, "one has nothing in common with others"
    assert not trait("country", ["EIRE"] * 25, ["France"] * 4).differs, "too few passed"  # type: ignore[union-attr]
    assert trait("weight", [1, 5, 9, 12, 20], list(range(20))) is None, "a range in which most passed says nothing"
    assert trait("weight", [91, 95, 99, 92], list(range(90))) is None, "four numbers span a range by chance"
    assert trait("mostly", ["EIRE"] * 24 + ["Malta"], ["France"] * 50).count == 24  # type: ignore[union-attr]
