"""Whatever way a replay takes, it finds the same: short or long, in parts, with little memory, on large logs."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from eventlib import Event, open_log
from eventlib.model.handler import Handler
from eventlib.model.record import Record
from eventlib.replay import Shard, partition_buffer, replay, replaying, scanner, spilling_cache
from eventlib.replay.fast_path import FastPathComparer
from eventlib.replay.report import merged
from services import shop
from services.dispatch.decider import shipments
from services.dispatch.events import DispatchFailed, OrderDispatched
from services.payment.decider import payments
from services.payment.events import ChargeRequested
from services.stock.events import LineRequested, LineReserved, StockReserved
from services.stock.reservation import reservations
from services.stock.shelf import shelves
from services.stock.state import Shelf
from tests import compiled_core
from tests.saga.planting import CANCELLED, handle, named, plant, unhandle
from tests.saga.running import RunningShop
from tests.saga.shop_runs import REAL_ORDERS, ShopLog, order_file


@pytest.mark.skipif(compiled_core.runs(), reason="a method of a compiled class cannot be replaced")
async def test_the_short_way_finds_what_the_long_way_finds(shop: RunningShop, monkeypatch: pytest.MonkeyPatch) -> None:
    def reserve_some(shelf: Shelf, line: LineRequested) -> Sequence[Event]:
        return shelves_reserve(shelf, line) if line.order_id in CANCELLED else []

    def taken(self: FastPathComparer, record: Record, event: Any, said: Any) -> bool:
        ways.append(short(self, record, event, said))
        return ways[-1]

    ways, short, shelves_reserve = list[bool](), FastPathComparer.decides, shelves.handlers[LineRequested].call
    monkeypatch.setattr(FastPathComparer, "decides", taken)
    right = await replay(shop.log)
    assert right.same
    assert 2 * sum(ways) > right.decisions  # most go the short way
    plant(monkeypatch, shelves, LineRequested, reserve_some)
    wrong = await replay(shop.log)
    assert not wrong.same
    monkeypatch.setattr(FastPathComparer, "decides", lambda *_: False)
    assert await replay(shop.log) == wrong
    monkeypatch.undo()
    monkeypatch.setattr(FastPathComparer, "decides", lambda *_: False)
    assert await replay(shop.log) == right


@pytest.mark.parametrize("count", [2, 3, 8])
async def test_parts_make_the_whole_in_the_same_order(
    shop: RunningShop, monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    ship = reservations.handlers[OrderDispatched].call
    plant(monkeypatch, reservations, OrderDispatched, lambda state, event: ship(state, event)[::-1])
    plant(monkeypatch, payments, StockReserved, lambda *_: [])
    unhandle(monkeypatch, payments, DispatchFailed)
    handle(monkeypatch, shipments, StockReserved, Handler(lambda *_: [], (), wants_meta=False))
    records = [record for record, event in await shop.records() if isinstance(event, ChargeRequested)]
    earlier_ms = min(record.timestamp_ms for record in records) - 60_000
    await shop.log.port.append([each.replace(id=each.event_id[::-1], timestamp_ms=earlier_ms) for each in records])
    for limit in (5, 100):
        whole = await replay(shop.log, limit=limit)
        assert len(whole.differing) == 3
        assert len(whole.first) == min(limit, len(whole.sagas))
        assert whole.notes
        assert len(whole.unknown) == len(records)
        parts = [await replay(shop.log, limit=limit, part=Shard(index, count)) for index in range(count)]
        assert sum(bool(part.first) for part in parts) > 1
        assert merged(parts, limit) == whole
        for together in (1, 40):
            with monkeypatch.context() as patched:
                patched.setattr(replaying, "_TOGETHER", together)
                assert await replay(shop.log, limit=limit) == whole


async def test_memory_that_is_too_small_is_made_up_for(shop: RunningShop, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = await replay(shop.log)
    monkeypatch.setattr(scanner, "_KEPT", 5)
    monkeypatch.setattr(scanner, "_READ_AHEAD", 1)
    monkeypatch.setattr(scanner, "_LEAST", 3)
    monkeypatch.setattr(spilling_cache, "IN_MEMORY", 5)
    assert await replay(shop.log) == whole


async def test_a_decoder_that_changes_a_value_in_silence_shows_in_the_sample_that_is_decoded(
    shop: RunningShop, monkeypatch: pytest.MonkeyPatch
) -> None:
    decode = shop.log.codec.decode

    def wrongly(expected: type[Any], data: bytes) -> Any:
        event = decode(expected, data)
        return event.model_copy(update={"quantity": 1_000}) if expected is LineReserved else event

    monkeypatch.setattr(shop.log.codec, "decode", wrongly)
    monkeypatch.setattr(partition_buffer, "_SAMPLE", "")  # every id ends so: here are too few events for one in 256
    report = await replay(shop.log)
    assert "stock/shelf.reserve" in named(report)
    assert {then.facts["quantity"] for each in report.first for then in each.then} == {1_000}


async def test_what_a_decider_has_made_again_is_decoded_once_for_its_schema_or_when_it_is_consumed_before(
    shop: RunningShop, monkeypatch: pytest.MonkeyPatch
) -> None:
    decode, decoded = shop.log.codec.decode, list[str]()

    def counted(expected: type[Any], data: bytes) -> Any:
        decoded.append(expected.__name__)
        return decode(expected, data)

    monkeypatch.setattr(shop.log.codec, "decode", counted)
    monkeypatch.setattr(partition_buffer, "_SAMPLE", "none ends so")
    monkeypatch.setattr(replaying, "_TOGETHER", 1)  # in the order of time: who emits something before who consumes it
    assert (await replay(shop.log)).same
    found = {name: decoded.count(name) for name in ("OrderPlaced", "LineShipped")}
    made = [type(event).__name__ for _, event in await shop.records()]
    assert all(1 <= count < made.count(name) / 2 for name, count in found.items()), found


@pytest.mark.slow
@pytest.mark.skipif(not REAL_ORDERS.exists(), reason="the real orders are not shipped with the project")
async def test_the_whole_real_file_differs_only_where_a_handler_was_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log_of = ShopLog(tmp_path)
    log_of.run_import(REAL_ORDERS, "--decline", "0.05", "--undeliverable", "0.01", longest_s=1_800)
    found = log_of.replay(longest_s=600)
    assert (found["differences"], found["unknown"], found["events"] > 500_000) == (0, [], True)

    reserve = shelves.handlers[LineRequested]
    reserved = {str(json.loads(line)["key"]) for line in log_of.tail() if '"LineReserved"' in line}

    def reserve_more(shelf: Any, line: LineRequested) -> Sequence[Event]:
        said = reserve.call(shelf, line)
        if not line.order_id.endswith("7") or type(said[0]) is not LineReserved:
            return said
        return [said[0].model_copy(update={"quantity": line.quantity + 1})]

    handlers: dict[type[Event], Handler] = {**shelves.handlers}
    handlers[LineRequested] = Handler(reserve_more, reserve.emits, wants_meta=False)
    monkeypatch.setattr(shelves, "handlers", handlers)
    async with open_log(log_of.url, shop, read_only=True) as log:
        report = await replay(log)
    (handler,) = report.differing
    assert handler.handler == "stock/shelf.reserve_more"
    assert set(handler.sagas) == {order_id for order_id in reserved if order_id.endswith("7")}


_ORDERS = 1_500


@pytest.mark.heavy
@pytest.mark.extended
def test_a_large_backlog_is_decided_in_the_order_that_its_journal_says(tmp_path: Path) -> None:
    log = ShopLog(tmp_path)
    log.run_import(order_file(tmp_path, _ORDERS), "--decline", "0.05", "--undeliverable", "0.01", longest_s=600)
    found = log.replay(longest_s=600)
    assert (found["differences"], found["unknown"], found["events"] > 25 * _ORDERS) == (0, [], True)
