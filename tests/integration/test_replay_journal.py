"""A task's past, read back from its journal: everything that was done, in order, with the records themselves."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from eventlib import EventLog, Publication, Runtime, open_log
from eventlib.errors import ContractError
from eventlib.model.record import Record, key_text
from eventlib.replay.journal_steps import (
    Answered,
    Consumed,
    DeadlinePassed,
    EffectReleased,
    Refusal,
    Released,
    Stalled,
)
from eventlib.replay.key_history import key_history
from eventlib.replay.task_inputs import PullScanner, TaskInputs
from eventlib.runtime.parking.control import ParkedRetryRequested
from eventlib.values import now_ms
from tests.apps.small_shop import Noted, Ordered, Outside, make_shop, record_of, retry, settle
from tests.integration.reopening import done_by, events, everything

BUG = Refusal("park", "RuntimeError: a bug in the handler")
WAITS = Refusal("park", "waits behind an earlier input of its key")


@pytest.fixture(params=["memory://", "sqlite:///{}/log.db"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return str(request.param).format(tmp_path)


async def acts(log: EventLog, key: str) -> list[Any]:
    """Return the acts of a task about one key; of what it consumed, each input with its refusals."""
    partition = log.choreography.service("orders").control.partition_of(key.encode())
    found = list[Any]()
    for act in (act for done in await done_by(log, partition) for act in done.acts):
        if isinstance(act, Consumed):
            found += [each for each in act.each() if key_text(each[0]) == key]
        elif act[:2] == ("order", key):
            found.append(act)
    return found


async def order(log: EventLog, order_id: str, cents: int = 5, **options: str) -> None:
    await log.publish(Ordered(order_id=order_id, cents=cents), **options)  # type: ignore[arg-type]  # only the key


def told(act: Any) -> object:
    """Return an act as short as a test wants to read it."""
    match act:
        case Released(record=record, refused=refused):
            return "released", record.type, refused
        case (Record() as record, refused):
            return (record.type, refused["order"]) if refused else record.type
        case _:
            return act


async def test_a_parked_key_its_retries_and_what_was_dropped(url: str) -> None:
    broken = {"bad"}
    async with open_log(url, make_shop(broken)) as log:
        await order(log, "bad", idempotency_key="1")
        await order(log, "bad", idempotency_key="1")
        await settle(log)
        await retry(log, "order", "bad")
        await settle(log)
        broken.clear()
        await retry(log, "order", "bad")
        await settle(log)
        found = await acts(log, "bad")
        (charge,) = [r for r in await everything(log, "charges") if r.type == "ChargeAsked"]
        expected = [
            ("Ordered", BUG),
            ("Ordered", WAITS),
            ("released", "Ordered", BUG),
            ("released", "Ordered", None),
            ("released", "Ordered", Refusal("drop", "duplicate")),
        ]
        assert [told(act) for act in found[:5]] == expected
        answers = [act for act in found if isinstance(act, Answered)]
        assert answers == [Answered("order", "bad", charge.id or "")]
        released = [act.record for act in found if isinstance(act, Released)]
        assert {record.location for record in released} <= {
            r.location for r in await everything(log, "orders.requests")
        }


async def test_deadlines_and_effects_that_wait_for_a_person(url: str) -> None:
    outside = Outside(refuses={"1"})
    async with open_log(url, make_shop(set())) as log:
        await log.publish(Ordered(order_id="1", cents=5, patience_s=0.05))
        async with Runtime(log, ports={"gateway": outside}) as runtime, asyncio.timeout(120):
            while not await events(log, "expiries"):
                await asyncio.sleep(0.02)
            await runtime.idle()
        (charge,) = await everything(log, "charges")
        outside.refuses.clear()
        value = log.codec.encode(ParkedRetryRequested("order", charge.id or ""))
        await log.port.append([Record("orders.control", charge.partition, -1, now_ms(), charge.key, value)])
        await settle(log, outside)
        found = await acts(log, "1")
        (passed,) = [act for act in found if isinstance(act, DeadlinePassed)]
        (asked,) = await everything(log, "orders.requests")
        (expired,) = await everything(log, "expiries")
        assert (passed.decider, passed.key, passed.name) == ("order", "1", "expires_at")
        assert passed.due_ms == asked.timestamp_ms + 50 <= expired.timestamp_ms
        request = charge.id or ""
        effect = [act for act in found if isinstance(act, Stalled | EffectReleased | Answered)]
        assert effect == [
            Stalled("order", "1", request, "TerminalError: this card was never one"),
            EffectReleased("order", "1", request),
            Answered("order", "1", request),
        ]


async def test_every_input_once_in_order_and_what_was_said_counted(url: str) -> None:
    async with open_log(url, make_shop(set())) as log:
        for _ in range(3):
            await log.publish_many([Publication(Ordered(order_id=str(n), cents=n)) for n in range(20)])
            await settle(log)
        said = 0
        for partition in range(8):
            taken = dict[str, list[int]]()
            whole = await done_by(log, partition)
            for act in (act for done in whole for act in done.acts if isinstance(act, Consumed)):
                for record, _ in act.each():
                    assert record.offset >= act.first or record.type == "ChargeAsked"  # which no decider handles
                    taken.setdefault(record.topic, []).append(record.offset)
            for topic in ("orders.requests", "notes", "charges"):
                assert taken.get(topic, []) == list(range(await log.port.end(topic, partition)))
            said += sum(done.said for done in whole)
            assert sorted(done.at_ms for done in whole) == [done.at_ms for done in whole]
        assert said == sum([len(await everything(log, topic)) for topic in ("notes", "charges")])


async def test_an_input_that_made_no_difference_keeps_its_place(url: str) -> None:
    """Whether it makes one depends on when it is handled; so the journal tells, though nothing was to commit."""
    async with open_log(url, make_shop(set())) as log:
        async with Runtime(log, ports={"gateway": Outside()}) as runtime:
            for n in range(4):
                await order(log, "1", n)
                await runtime.idle()
        found = [told(act) for act in await acts(log, "1")]
        assert [each for each in found if each in {"Ordered", "Noted"}] == ["Ordered", "Noted"] * 4


async def test_the_history_of_a_key_has_what_the_whole_has_of_it(url: str) -> None:
    async with open_log(url, make_shop({"4"})) as log:
        await log.publish_many([Publication(Ordered(order_id=str(n % 7), cents=n)) for n in range(40)])
        await settle(log)
        orders, kinds = log.choreography.decider("order"), {"handled": (), "parked": ("park",)}
        for key in map(str, range(7)):
            whole = [act for act in await acts(log, key) if not isinstance(act, Answered)]
            of_key = [step for step in (await key_history(log, orders, key)).steps if step.kind != "answered"]
            assert [(step.input.record, *kinds[step.kind]) for step in of_key if step.input is not None] == [
                (record, *(each.kind for each in refused.values()))
                for record, refused in whole
                if record.type != "ChargeAsked"
            ]


async def test_what_retention_has_dropped_is_named() -> None:
    async with open_log("memory://", make_shop(set())) as log:
        await order(log, "1")
        await settle(log)
        (asked,) = await everything(log, "orders.requests")
        kept = log.port._partitions["orders.requests", asked.partition]  # type: ignore[attr-defined]  # noqa: SLF001  as retention does
        kept.records.clear()
        await log.port.append([record_of(log, Ordered(order_id="1", cents=1))])
        with pytest.raises(ContractError, match=rf"orders.requests/{asked.partition} begins at offset 1: .* from 0 on"):
            await acts(log, "1")


@pytest.mark.timeout(30)
async def test_inputs_up_to_an_offset_in_a_gap_are_those_before_it() -> None:
    """A transaction's end takes an offset on Kafka, and may be what a task has come to."""
    async with open_log("memory://", make_shop(set())) as log:
        noted = record_of(log, Noted(order_id="1", count=1))
        await log.port.append([noted] * 3)
        del log.port._partitions["notes", noted.partition].records[1]  # type: ignore[attr-defined]  # noqa: SLF001
        inputs = TaskInputs(PullScanner(log), (log.choreography.service("orders"), noted.partition))
        inputs.begin("notes", 0)
        found = [[each.record.offset for each in await inputs.take("notes", last)] for last in (1, 1, 2)]
        assert found == [[0], [], [2]]
