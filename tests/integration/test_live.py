"""Live views on a real broker: each equals what is computed from the log by itself, whatever was killed."""

import asyncio
import json
import time
from functools import partial
from pathlib import Path
from secrets import token_hex

import pytest

from eventlib.broker import Cluster
from tests.integration.live_answers import History, check_told, failures
from tests.integration.live_log import Story, is_read, share_read, told
from tests.integration.live_worker import SERVICES, LiveWorker
from tests.saga.shop_runs import REAL_ORDERS, ShopLog


def test_views_equal_the_log_after_their_worker_was_killed_at_work(tmp_path: Path, broker: Cluster) -> None:
    shop = ShopLog(tmp_path, f"{broker.url}/?prefix={token_hex(4)}.")
    asyncio.run(told(shop.url, Story(160, seed=1)))
    with LiveWorker(shop.url, tmp_path) as worker:
        worker.wait(lambda: bool(worker.rows("stock", "shelves")), "the first row")
        worker.kill()
        asyncio.run(told(shop.url, Story(80, seed=2, first=160)))
        worker.start()
        check_all(worker, shop)
        worker.stop()


def check_all(worker: LiveWorker, shop: ShopLog) -> None:
    """Wait until the views of all services have read everything, and hold them and what they told against the log."""
    for service in SERVICES:
        worker.wait(partial(_has_read, shop.url, service), f"the end of {service}'s inputs")
    history = History(map(json.loads, shop.tail()))
    worker.check(history)
    check_told(history, failures(history)[0])


def _has_read(url: str, service: str) -> bool:
    return asyncio.run(is_read(url, service))


@pytest.mark.slow
@pytest.mark.skipif(not REAL_ORDERS.exists(), reason="the real orders are not shipped with the project")
def test_views_of_the_whole_real_file_after_three_kills(tmp_path: Path, broker: Cluster) -> None:
    shop = ShopLog(tmp_path, f"{broker.url}/?prefix={token_hex(4)}.")
    shop.run_import(REAL_ORDERS, "--decline", "0.05", "--undeliverable", "0.05", longest_s=2_400)
    began = time.monotonic()
    with LiveWorker(shop.url, tmp_path, longest_s=3_600) as worker:
        for share in (0.1, 0.4, 0.7):
            worker.wait(partial(_has_come, shop.url, share), f"{share:.0%} of the log")
            worker.kill()
            worker.start()
        check_all(worker, shop)
        print(f"all read and right after {time.monotonic() - began:.0f} s, killed three times")
        worker.stop()


def _has_come(url: str, share: float) -> bool:
    return asyncio.run(share_read(url)) >= share
