"""One record never ends what reads it: values that a table, an index or a search has no place for, or at their limits."""

import sqlite3
from collections.abc import AsyncIterator
from dataclasses import dataclass
from math import nan
from pathlib import Path
from typing import Annotated, Any

import pytest

from eventlib import Choreography, Decider, Event, EventLog, Runtime, Service, open_log
from eventlib.model.record import Record
from eventlib.queries import StateIndex
from eventlib.queries.projection import Projection
from eventlib.queries.projection_file import View
from eventlib.search import SagaQuery, SagaSearch, Searchable

LEAST, MOST = -(2**63), 2**63 - 1


class Measured(Event, topic="measured", key="probe", request=True):
    probe: str
    value: float
    count: int = 0


class Kept(Event, topic="kept", key="probe", final=True):
    probe: str
    count: Annotated[int, Searchable]
    name: Annotated[str, Searchable]


@dataclass(frozen=True)
class Probe:
    value: float = 0.0
    count: int = 0

    @property
    def doubled(self) -> int:
        return 2 * self.count


probes = Decider("probe", state=Probe, key="probe")


@probes.evolve
def evolve(probe: Probe, event: Event) -> Probe:
    return Probe(event.value, event.count) if isinstance(event, Measured) else probe


@probes.on(Measured)
def keep(_: Probe, measured: Measured) -> list[Kept]:
    return [Kept(probe=measured.probe, count=measured.count, name=f"{measured.probe} 50%_\\")]


APP = Choreography("probes", [Service("probes", deciders=[probes])])


@pytest.fixture
async def log(tmp_path: Path) -> AsyncIterator[EventLog]:
    async with open_log(f"sqlite:///{tmp_path}/log.db", APP) as opened, Runtime(opened) as running:
        for probe, value, count in (("a", 1.0, 1), ("b", nan, LEAST), ("c", 3.0, MOST)):
            await opened.publish(Measured(probe=probe, value=value, count=count))
        await running.idle()
        yield opened


@pytest.mark.parametrize("value", [nan, 2**63], ids=["NaN where a column has to have a value", "an int of 65 bits"])
async def test_a_record_that_the_tables_do_not_take_is_left_out_and_named(log: EventLog, value: float) -> None:
    def apply(db: sqlite3.Connection, _: Record, event: Any) -> None:
        found = value if event.probe == "b" else event.value
        db.execute("INSERT INTO probes VALUES (?, 'first')", (event.probe,))
        db.execute("INSERT INTO value VALUES (?, ?)", (event.probe, found))

    tables = "CREATE TABLE probes (probe TEXT, note TEXT); CREATE TABLE value (probe TEXT, value REAL NOT NULL)"
    view = View("values", ["measured"], tables, apply)
    for _ in range(2):  # after a restart, too
        async with Projection(log, view) as projection:
            assert await projection.caught_up(10)
            assert sorted(projection.rows("SELECT * FROM value")) == [("a", 1.0), ("c", 3.0)]
            assert sorted(projection.rows("SELECT probe FROM probes")) == [("a",), ("c",)]
            ((place, reason),) = projection.misfits.items()
            assert place[0] == "measured"
            assert reason.startswith(("IntegrityError: NOT NULL", "OverflowError: "))
            partitions = [("measured", partition) for partition in range(4)]
            await projection.up_to_date(partitions, 10)  # and so no other key is refused


async def test_a_state_whose_attribute_no_column_can_have_is_found_by_its_key(log: EventLog) -> None:
    async with StateIndex(log, probes, [("value",), ("count",), ("doubled",)]) as index:
        assert {key: await index.current(key, 10) is not None for key in "abc"} == dict.fromkeys("abc", True)
        assert [row.key for row in index.where(order_by="value")] == ["a", "c"]
        assert [row.key for row in index.where(order_by="count")] == ["b", "a", "c"]
        assert [row.key for row in index.where({"count": LEAST})] == ["b"]
        assert [row.key for row in index.where(order_by="doubled")] == ["a"]


@pytest.mark.parametrize(
    ("where", "keys"),
    [
        (f"count = {LEAST}", ["b"]),
        (f"count >= {LEAST} and count < 2", ["a", "b"]),
        (f"count = {MOST}", ["c"]),
        (r"name like '% 50\%\_\\'", ["a", "b", "c"]),
        (r"name like '%\%%'", ["a", "b", "c"]),
        (r"name like '%0_\_%'", ["a", "b", "c"]),
        (r"name like '% 50\_%'", []),
        (r"name like '%0\%_\'", ["a", "b", "c"]),
    ],
)
async def test_a_search_finds_limits_and_signs_that_are_wildcards(log: EventLog, where: str, keys: list[str]) -> None:
    async with SagaSearch(log) as search:
        assert await search.caught_up(10)
        assert sorted(saga["saga"] for saga in (await search.full_page(SagaQuery(where))).sagas) == keys
