"""Places the orders of a file on a log little by little, so that there are always some in flight."""

import asyncio
import math
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Self

from eventlib import EventLog, open_log
from eventlib.errors import RetryableError
from eventlib.publication import Publication
from services import shop
from services.importing.catalogue import prepare
from services.importing.files import Source
from services.importing.intake import Intake, order_request

_BATCH = 20
_LOOK_S = 0.05


class PacedImport:
    """An import of so many orders a second; at the end of the context all that is left is placed at once.

    What the log does not take is placed again, under the same idempotency keys, as an import that was broken off does.
    No more than `limit` are placed before that end.
    """

    def __init__(self, file: Path, url: str, stock_units: int, orders_per_s: float) -> None:
        self.placed = 0
        self.repeated = 0
        self.limit = math.inf
        self._file = file
        self._url = url
        self._stock_units = stock_units
        self._pause_s = _BATCH / orders_per_s
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="placing")

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._pause_s, self.limit = 0, math.inf
        self._thread.join()
        if self._failure is not None:
            raise self._failure

    def _run(self) -> None:
        try:
            asyncio.run(self._place_all())
        except BaseException as error:  # noqa: BLE001  for whoever has started it
            self._failure = error

    async def _place_all(self) -> None:
        with Intake(Source(self._file)) as intake:
            intake.take_in(lambda _: None)
            await self._place_taken_in(intake)

    async def _place_taken_in(self, intake: Intake) -> None:
        async with open_log(self._url, shop) as log:
            await self._insist(lambda: prepare(log, intake, self._stock_units))
            batch = list[Publication]()
            for order in intake.to_place(log.codec, None):
                batch.append(order_request(order))
                if len(batch) == _BATCH:
                    await self._place(log, batch)
                    batch = []
            await self._place(log, batch)

    async def _place(self, log: EventLog, batch: list[Publication]) -> None:
        while self.placed >= self.limit:
            await asyncio.sleep(_LOOK_S)
        await self._insist(lambda: log.publish_many(batch))
        self.placed += len(batch)
        await asyncio.sleep(self._pause_s)

    async def _insist(self, work: Callable[[], Awaitable[object]]) -> None:
        while True:
            try:
                await work()
            except RetryableError as error:
                self.repeated += 1
                print(f"placing again: {error}", flush=True)
            else:
                return
