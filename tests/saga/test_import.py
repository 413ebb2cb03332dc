"""The real command on real orders: imported, imported again, and killed at random moments, the invariants hold."""

from collections import Counter
from pathlib import Path
from random import Random

import pytest

from tests.saga.invariants import History, check_laws, read_file, refusals
from tests.saga.shop_runs import REAL_ORDERS, ShopLog, order_file

pytestmark = pytest.mark.heavy

RATES = ("--decline", "0.05", "--undeliverable", "0.05", "--gateway-timeout", "0.1", "--seed", "7")
STOCK_UNITS = 150
STOCK = ("--stock", str(STOCK_UNITS))


def check(shop: ShopLog, file: Path, stock_units: int) -> History:
    wanted, history = read_file(file), History(shop.tail())
    check_laws(wanted, history, shop.ledger, stock_units)
    assert Counter(refusal["reason"] for refusal in refusals(shop.rejects)) == wanted.refused
    assert shop.parked() == []
    return history


def test_the_laws_hold_and_the_same_file_again_changes_nothing(tmp_path: Path) -> None:
    shop, file = ShopLog(tmp_path), order_file(tmp_path, 400)
    first = shop.run_import(file, *RATES, *STOCK)
    before = sorted(shop.tail())
    check(shop, file, STOCK_UNITS)
    assert {"out_of_stock", "declined", "undeliverable"} <= first["cancelled"].keys()

    again = shop.run_import(file, *RATES, *STOCK)

    assert sorted(shop.tail()) == before
    assert (again["placed"], again["placed_before"]) == (0, first["placed"])
    for same in ("read", "refused", "completed", "cancelled", "compensations", "money", "units_shipped"):
        assert again[same] == first[same]


def test_placed_only_and_then_seen_through(tmp_path: Path) -> None:
    shop, file = ShopLog(tmp_path), order_file(tmp_path, 40)

    placed = shop.run_import(file, *STOCK, "--place-only")

    assert placed["placed"] > 0
    assert placed["notes"] == ["the stock has not arrived yet: some orders may be refused as out of stock"]
    assert not any('"OrderPlaced"' in line for line in shop.tail())
    seen_through = shop.run_import(file, *STOCK)
    assert seen_through["placed"] == 0
    check(shop, file, STOCK_UNITS)


@pytest.mark.parametrize(("orders", "kills"), [(400, 6)])
@pytest.mark.extended
def test_killed_and_started_again_the_laws_hold(tmp_path: Path, orders: int, kills: int) -> None:
    _killed(tmp_path, order_file(tmp_path, orders), kills, most=1_500, stock_units=STOCK_UNITS)


@pytest.mark.slow
@pytest.mark.skipif(not REAL_ORDERS.exists(), reason="the real orders are not shipped with the project")
def test_the_whole_real_file(tmp_path: Path) -> None:
    shop = ShopLog(tmp_path)
    summary = shop.run_import(REAL_ORDERS, "--decline", "0.05", "--undeliverable", "0.01", longest_s=900)
    print(summary)
    check(shop, REAL_ORDERS, 1_000)


@pytest.mark.slow
@pytest.mark.skipif(not REAL_ORDERS.exists(), reason="the real orders are not shipped with the project")
def test_the_whole_real_file_killed_forty_times(tmp_path: Path) -> None:
    _killed(tmp_path, REAL_ORDERS, 40, most=20_000, stock_units=1_000)


def _killed(directory: Path, file: Path, kills: int, most: int, stock_units: int) -> None:
    """Kill an import again and again, each time after up to so many records more than there were."""
    shop, seed = ShopLog(directory), 20_101_201
    random = Random(seed)
    options = (*RATES, "--stock", str(stock_units))
    for _ in range(kills):
        records = random.randrange(most)
        print(f"seed {seed}: SIGKILL after {records} records")
        shop.killed_import(file, records, *options)
    print(shop.run_import(file, *options, longest_s=600))
    check(shop, file, stock_units)
