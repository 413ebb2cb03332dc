"""Follows the endings of orders and of deliveries on a log, beside whatever else a test does with it."""

import asyncio
import threading
import time
from typing import Self

from eventlib import open_log
from eventlib.errors import RetryableError
from services import shop

_ENDINGS = {"OrderCompleted", "OrderCancelled"}
_ARRIVAL = "StockReceived"
_TOPICS = {topic.name: topic.partitions for topic in shop.topics if topic.name in {"orders", "stock.requests"}}
_LOOK_S = 0.2


class Endings:
    """How many orders have ended so far, and deliveries arrived: `with Endings(url) as endings: ...`."""

    def __init__(self, url: str) -> None:
        self.count = 0
        self.arrivals = 0
        self._url = url
        self._over = False
        self._thread = threading.Thread(target=lambda: asyncio.run(self._follow()), name="endings")

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over = True
        self._thread.join()

    def wait(self, orders: int, arrivals: int = 0, *, longest_s: float) -> float:
        """Wait until so many have ended, and arrived; return the seconds that took. Raises: AssertionError."""
        started = time.monotonic()
        while self.count < orders or self.arrivals < arrivals:
            taken_s = time.monotonic() - started
            so_far = f"{self.count} of {orders} orders, {self.arrivals} of {arrivals} deliveries"
            assert taken_s < longest_s, f"{so_far} are through after {taken_s:.0f} s"
            assert self._thread.is_alive(), "the log cannot be followed"
            time.sleep(_LOOK_S)
        return time.monotonic() - started

    async def _follow(self) -> None:
        async with open_log(self._url, shop) as log:
            places = [(topic, partition) for topic, count in _TOPICS.items() for partition in range(count)]
            reader = log.port.reader(dict.fromkeys(places, 0))
            while not self._over:
                try:
                    records = await reader.poll(5_000, _LOOK_S)
                except RetryableError:
                    continue  # the brokers are away
                self.count += sum(record.type in _ENDINGS for record in records)
                self.arrivals += sum(record.type == _ARRIVAL for record in records)
            await reader.close()
