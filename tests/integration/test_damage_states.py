"""States that are damaged or that today's code cannot read: built anew, or their task stops and says why."""

import asyncio
from dataclasses import dataclass
from pathlib import Path

import pytest

from eventlib import Choreography, ContractError, Decider, Event, EventLog, Runtime, Service, open_log
from eventlib.log.reading import SkippingReader
from eventlib.model.record import Record
from eventlib.model.states import replace
from eventlib.operations.reprocessing.cutover import switch
from eventlib.operations.reprocessing.metadata import RerunSpec
from eventlib.operations.reprocessing.running import rerunning
from eventlib.operations.status import StatusReader
from eventlib.queries.state import state_of
from eventlib.replay import replay
from eventlib.replay.journal import TaskJournal
from eventlib.runtime.records import Positions
from eventlib.state.memory import MemoryStores
from tests.apps.small_shop import Ordered, Outside, make_shop, settle
from tests.golden.contracts import first
from tests.golden.contracts.first import DeliveryTold, ParcelAccepted, ParcelDelivered, ParcelHandedIn, Speed
from tests.handling import handle_all
from tests.integration.damaging import KEYS, change, charged, everything, order, steps

FIRST_ENTRY = """UPDATE records SET value = x'00' WHERE position = (
    SELECT min(position) FROM records WHERE type = 'JournalEntry' GROUP BY position >> 40 ORDER BY count(*) DESC LIMIT 1
)"""


NEWEST = "(SELECT max(position) FROM records WHERE key = CAST(? AS BLOB))"


@pytest.mark.parametrize(
    "what",
    [
        f"UPDATE records SET value = x'00', subject = 'b' WHERE position = {NEWEST}",  # noqa: S608
        f"UPDATE records SET value = x'00', key = x'b0', subject = 'b' WHERE position = {NEWEST}",  # noqa: S608
        f"DELETE FROM records WHERE position = {NEWEST}",  # noqa: S608
    ],
)
@pytest.mark.parametrize("kind", ["state/order/3", "effect", "position"])
async def test_a_damaged_state_is_built_anew_from_the_journal_and_written_again(
    tmp_path: Path, what: str, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    url, outside = f"sqlite:///{tmp_path}/log.db", Outside(refuses={"3"})
    async with open_log(url, make_shop(set())) as log:
        await order(log, *KEYS)
        await settle(log, outside, MemoryStores())
        before = [each for each in await everything(log, "orders.changelog") if each.partition == hurt_partition(log)]
        newest = {each.key: each for each in before}
        key = next(k for k in reversed(newest) if k and k.decode().startswith(kind)) or b""
    sql = what
    if kind == "position":  # one in each partition: the last one is that of the key's
        sql = what.replace(NEWEST, f"(SELECT max(position) FROM records WHERE key = CAST(? AS BLOB) AND {IN_TASK})")  # noqa: S608
    change(tmp_path / "log.db", sql, key.decode())
    place = f"orders.changelog/{newest[key].partition}/{newest[key].offset}"
    async with open_log(url, make_shop(set())) as log:
        await settle(log, outside, MemoryStores())
        assert "were rebuilt from the journal" in caplog.text
        (mended,) = [step for step in await steps(log) if step.kind == "mend"]
        assert (mended.topic, mended.first) == ("orders.changelog", newest[key].offset)
        assert place in mended.detail
        after = {
            each.key: each
            for each in await everything(log, "orders.changelog")
            if each.partition == hurt_partition(log)
        }
        assert after[key].offset > newest[key].offset
        assert contents(after) == contents(newest)
        assert positions(log, after) == positions(log, newest)
        await order(log, "3", "34")  # and it goes on from there
        outside.refuses.clear()
        await settle(log, outside, MemoryStores())
        assert len([step for step in await steps(log) if step.kind == "mend"]) == 1
        assert await charged(log) == {*KEYS, "34"} - {"3"}


def hurt_partition(log: EventLog) -> int:
    return log.choreography.service("orders").changelog.partition_of(b"3")


def positions(log: EventLog, records: dict[bytes | None, Record]) -> tuple[object, ...]:
    """Return a task's positions, and when it began."""
    found = log.codec.decode(Positions, records[b"position"].value or b"")
    return dict(found.next), dict(found.past), found.first_ms


def contents(records: dict[bytes | None, Record]) -> dict[bytes | None, tuple[object, ...]]:
    """Return what the records of states and effects say."""
    return {key: each.astuple()[5:] for key, each in records.items() if each.value is not None and key != b"position"}


IN_TASK = """position >> 40 = (SELECT max(position) >> 40 FROM records WHERE key = CAST('state/order/3' AS BLOB))"""


async def test_a_task_whose_state_cannot_be_proved_stops_alone_and_says_why(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    url = f"sqlite:///{tmp_path}/log.db"
    async with open_log(url, make_shop(set())) as log:
        await order(log, *KEYS)
        await settle(log, stores=MemoryStores())
    change(tmp_path / "log.db", f"DELETE FROM records WHERE position = {NEWEST}", "state/order/3")  # noqa: S608
    journal = "SELECT max(position) FROM records WHERE type = 'JournalEntry' AND position >> 40 = (SELECT number FROM"
    where = f"({journal} partitions WHERE topic = 'orders.journal' AND partition = 7))"
    change(tmp_path / "log.db", f"DELETE FROM records WHERE position = {where}")  # noqa: S608
    async with open_log(url, make_shop(set())) as log:
        assert hurt_partition(log) == 7
        await order(log, "34")
        async with Runtime(log, ports={"gateway": Outside()}, stores=MemoryStores()) as runtime, asyncio.timeout(120):
            await runtime.idle()
            (stopped,) = runtime.damage.stopped.items()
        assert stopped[0] == ("orders", 7)
        assert "orders.changelog/7/" in stopped[1]
        assert "orders.journal/7/" in stopped[1]
        assert "restore it from a backup" in stopped[1]
        assert await charged(log) == {*KEYS, "34"}
        (damaged,) = (await StatusReader(log).read()).damaged
        assert "orders.changelog/7/" in str(damaged)
        report = await replay(log)
        assert report.same, report.first or report.unknown
        assert any("orders.journal/7/" in each for each in report.damaged)
    assert "task orders/7 has stopped" in caplog.text
    assert "Traceback" not in caplog.text


@pytest.mark.parametrize(
    "sql",
    [
        "UPDATE state SET value = replace(CAST(value AS BLOB), x'02', x'06') WHERE key = 'state/order/3'",
        "UPDATE state SET value = x'00' WHERE key = 'position' AND partition = 7",
        "UPDATE tasks SET checkpoint = checkpoint + 1 WHERE partition = 7",
    ],
)
async def test_a_damaged_store_is_thrown_away_and_restored(
    tmp_path: Path, sql: str, caplog: pytest.LogCaptureFixture
) -> None:
    url = f"sqlite:///{tmp_path}/log.db"
    async with open_log(url, make_shop(set())) as log:
        await order(log, *KEYS)
        await settle(log)
    change(tmp_path / "log.db.state" / "orders.db", sql)
    async with open_log(url, make_shop(set())) as log:
        await log.publish(Ordered(order_id="3", cents=7), idempotency_key="3 again")
        await order(log, "34")
        await settle(log)
        assert await charged(log) == {*KEYS, "34"}
        charges = [each for each in await everything(log, "charges") if each.key == b"3" and each.type == "Charged"]
        assert [each.sequence for each in charges] == [3, 6]
    said = [each.getMessage() for each in caplog.records if "thrown away" in each.getMessage()]
    assert len([each for each in said if each.startswith("the state store")]) == 1
    assert "Traceback" not in caplog.text


async def test_a_damaged_beginning_of_a_journal_makes_nothing_differ(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/log.db"
    async with open_log(url, make_shop(set())) as log:
        await log.publish_many([Ordered(order_id=key, cents=5) for key in KEYS])
        await settle(log)
        emitted = {(each.timestamp_ms, each.partition) for each in await everything(log, "notes")}
    assert len({at_ms for at_ms, _ in emitted}) < len(emitted), "no two tasks have emitted at the same time"
    change(tmp_path / "log.db", FIRST_ENTRY)
    async with open_log(url, make_shop(set())) as log:
        report = await replay(log)
        assert report.same, report.first or report.unknown
        assert [note for note in report.notes if "up to its damaged journal entry" in note]
        (damaged,) = report.damaged
        assert damaged.startswith("orders.journal/")
        partition = int(damaged.split("/")[1])
        (service,) = log.choreography.services
        readable = log.over(SkippingReader(log.port), log.codec)
        with pytest.raises(ContractError, match=r"its beginning cannot be read .* from offset 0 on"):
            await anext(TaskJournal(readable, service, partition).entries())


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
