"""Places a file's orders on a log, and waits for their ends."""

import asyncio
import time
from collections.abc import Coroutine
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TextIO

from eventlib import EventLog, Runtime, RuntimeConfig, WiringError, open_log
from eventlib.config import runtime_config
from eventlib.queries import event_topics
from services import shop
from services.importing.catalogue import arrival, find_orders, prepare
from services.importing.display import ImportProgress
from services.importing.files import Source
from services.importing.intake import Intake, Known, order_request
from services.importing.report import Report
from services.importing.watching import Watch, watching
from services.order.events import OrderSubmitted
from services.outside import open_ports
from services.settings import ShopSettings, shop_settings

_QUIET_S = 2.0
_LONGEST_QUIET_S = 60.0
_IDLE_S = 10.0


@dataclass(frozen=True, kw_only=True)
class ImportConfig:
    """The options of an import.

    `open_orders` is how many orders may be placed and not ended before the import waits, `batch_orders` and
    `batch_lines` how many are published together, `patience_s` how long it waits for the next delivery to arrive,
    and `place_only_patience_s` the same when other processes run the services.
    """

    log_url: str
    stock_units: int = 1_000
    place_only: bool = False
    rejects: Path | None = None
    settings: ShopSettings = field(default_factory=shop_settings)
    runtime: RuntimeConfig = field(default_factory=runtime_config)
    open_orders: int = 1_000
    batch_orders: int = 100
    batch_lines: int = 2_000
    patience_s: float = 15.0
    place_only_patience_s: float = 3.0


async def import_file(path: Path, config: ImportConfig, progress: ImportProgress) -> Report:
    """Import a file's orders; see the module `services.importing`.

    Guarantee: a second import of the same content adds nothing to the event topics; an interrupted one continues.
    Raises: UnreadableFile before anything is placed; terminal errors of the log or a service.
    """
    if config.rejects is not None and config.rejects.exists() and config.rejects.samefile(path):
        raise WiringError(f"--rejects {config.rejects} is the imported file: name another one")
    if config.rejects is not None and not config.rejects.parent.is_dir():
        raise WiringError(f"--rejects {config.rejects}: there is no directory {config.rejects.parent}")
    async with AsyncExitStack() as stack:
        intake = stack.enter_context(Intake(Source(path)))
        intake.take_in(lambda read: progress.show(f"reading the file: {read:,} orders", at_once=False))
        rejects = None if config.rejects is None else stack.enter_context(config.rejects.open("w", encoding="utf-8"))
        log = await stack.enter_async_context(open_log(config.log_url, shop))
        running = Import(log, intake, rejects, config, progress)
        if config.place_only:
            await running.begin()
            await running.place(None)
            return running.report
        ports = await stack.enter_async_context(open_ports(config.settings, config.log_url))
        runtime = await stack.enter_async_context(Runtime(log, ports=ports, config=config.runtime))
        await _first(running.see_through(runtime), runtime.failed())
        return running.report


class Import:
    """A running import."""

    def __init__(
        self, log: EventLog, intake: Intake, rejects: TextIO | None, config: ImportConfig, progress: ImportProgress
    ) -> None:
        self._log = log
        self._intake = intake
        self._rejects = rejects
        self._config = config
        self._progress = progress
        self.report = report = intake.report
        report.log, report.place_only, report.products.in_file = config.log_url, config.place_only, len(intake.products)
        self._quiet_s = _QUIET_S

    async def see_through(self, runtime: Runtime) -> None:
        """Publish everything, and wait until every order has ended or waits for something parked."""
        first_ms = await self.begin()
        async with watching(self._log, self._intake, first_ms) as watch:
            started, events = time.monotonic(), await self._events()
            await self.place(watch)
            await watch.catch_up()
            while self.report.open:
                is_quiet = await self._look(watch)
                if is_quiet and (self.report.lost or len(self.report.waiting) >= self.report.open):
                    break  # of orders whose end was gone before it was read, no other sign comes
            else:
                self.report.waiting = []
        for (topic, partition), (first, to) in self.report.lost.items():
            self.report.notes.append(
                f"{topic}/{partition}: events were gone before they were read, from offset {first} to {to}: how their "
                "orders ended is not counted"
            )
        with suppress(TimeoutError):  # another process may own tasks, and continue with them
            async with asyncio.timeout(_IDLE_S):
                await runtime.idle()
        self.report.seconds = round(time.monotonic() - started, 3)
        self.report.events = await self._events() - events

    async def begin(self) -> int | None:
        """List products, deliver stock; return when the first order of this file was placed (ms), if any was."""
        report, config = self.report, self._config
        self._progress.show("reading what the log has already")
        self.report.on_log, first_ms = await find_orders(self._log, self._intake)
        self._progress.show("listing products and delivering stock")
        catalogue = await prepare(self._log, self._intake, config.stock_units)
        report.products.listed, report.deliveries = catalogue.listed, catalogue.delivered
        if catalogue.other_units:
            report.notes.append(
                f"{catalogue.other_units:,} deliveries of this file are on the log with another number of units: "
                "they stay as they are"
            )
        patience_s = config.place_only_patience_s if config.place_only else config.patience_s
        if first_ms is None and not await arrival(self._log, catalogue, patience_s):
            report.notes.append("the stock has not arrived yet: some orders may be refused as out of stock")
        return first_ms

    async def place(self, watch: Watch | None) -> None:
        """Publish the orders that the log does not have; with a watch, no more at once than may be open."""
        batch, lines = list[OrderSubmitted](), 0
        for order in self._intake.to_place(self._log.codec, self._rejects):
            batch.append(order)
            lines += len(order.lines)
            if len(batch) >= self._config.batch_orders or lines >= self._config.batch_lines:
                await self._publish(batch)
                batch, lines = [], 0
                while watch is not None and self.report.open - len(self.report.waiting) >= self._config.open_orders:
                    await self._look(watch)
        await self._publish(batch)

    async def _publish(self, orders: list[OrderSubmitted]) -> None:
        for order in orders:  # before they are on the log, so that no end is read of an unknown order
            self._intake.learn(order.order_id, Known.PLACED)
        self.report.on_log += len(orders)
        await self._log.publish_many(map(order_request, orders))
        self._count()

    async def _look(self, watch: Watch) -> bool:
        """Wait for an order to end; when none has for a while, find out which ones wait for something parked."""
        ended, until = self.report.ended, time.monotonic() + self._quiet_s
        while self.report.ended == ended and time.monotonic() < until:
            await watch.read()
            self._count()
        if self.report.ended > ended:
            self._quiet_s = _QUIET_S
            return False
        self._quiet_s = min(2 * self._quiet_s, _LONGEST_QUIET_S)
        await watch.catch_up()
        self.report.waiting = await watch.waiting()
        return True

    def _count(self) -> None:
        self._progress.counted(self.report)

    async def _events(self) -> int:
        places = [(topic.name, number) for topic in event_topics(self._log) for number in range(topic.partitions)]
        return sum([await self._log.port.end(*place) for place in places])


async def _first(*works: Coroutine[Any, Any, None]) -> None:
    """Run work beside what only ends by failing; the first to end or fail decides."""
    tasks = [asyncio.ensure_future(work) for work in works]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
