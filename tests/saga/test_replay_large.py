"""A log that is too large for small chances: what goes wrong once in ten thousand decisions is in it."""

from pathlib import Path

import pytest

from tests.saga.shop_runs import ShopLog, order_file

_ORDERS = 1_500


@pytest.mark.heavy
@pytest.mark.extended
def test_a_large_backlog_is_decided_in_the_order_that_its_journal_says(tmp_path: Path) -> None:
    log = ShopLog(tmp_path)
    log.run_import(order_file(tmp_path, _ORDERS), "--decline", "0.05", "--undeliverable", "0.01", longest_s=600)
    found = log.replay(longest_s=600)
    assert (found["differences"], found["unknown"], found["events"] > 25 * _ORDERS) == (0, [], True)
