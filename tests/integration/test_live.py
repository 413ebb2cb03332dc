"""Live views on a real broker: each equals what is computed from the log by itself, whatever was killed."""

import asyncio
import json
from functools import partial
from pathlib import Path
from secrets import token_hex

from eventlib.broker import Cluster
from tests.integration.live_answers import History, check_told, failures
from tests.integration.live_log import Story, is_read, told
from tests.integration.live_worker import SERVICES, LiveWorker
from tests.saga.shop_runs import ShopLog


def test_views_equal_the_log_after_their_worker_was_killed_at_work(tmp_path: Path, broker: Cluster) -> None:
    shop = ShopLog(tmp_path, f"{broker.url}/?prefix={token_hex(4)}.")
    asyncio.run(told(shop.url, Story(160, seed=1)))
    with LiveWorker(shop.url, tmp_path) as worker:
        worker.wait(lambda: bool(worker.rows("stock", "shelves")), "the first row")
        worker.kill()
        asyncio.run(told(shop.url, Story(80, seed=2, first=160)))
        worker.start()
        read_by(worker, shop)
        history = History(map(json.loads, shop.tail()))
        worker.check(history)
        check_told(history, failures(history)[0])
        worker.stop()


def read_by(worker: LiveWorker, shop: ShopLog) -> None:
    """Wait until the views of all services have read everything."""
    for service in SERVICES:
        worker.wait(partial(_has_read, shop.url, service), f"the end of {service}'s inputs")


def _has_read(url: str, service: str) -> bool:
    return asyncio.run(is_read(url, service))
