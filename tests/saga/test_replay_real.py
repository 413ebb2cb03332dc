"""Large logs replayed: the code that made them differs in nothing, a changed handler in its own orders."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from eventlib import Event, open_log
from eventlib.model.handler import Handler
from eventlib.replay import replay
from services import shop
from services.stock.events import LineRequested, LineReserved
from services.stock.shelf import shelves
from tests.saga.shop_runs import REAL_ORDERS, ShopLog, order_file


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
