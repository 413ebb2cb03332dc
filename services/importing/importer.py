"""Places a file's orders on a log, and waits for their ends."""

import asyncio
import time
from collections.abc import Coroutine
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from eventlib import EventLog, Publication, Runtime, RuntimeConfig, WiringError, open_log
from eventlib.config import runtime_config
from eventlib.queries import event_topics
from services import shop
from services.importing.catalogue import arrival, prepare
from services.importing.known import Known
from services.importing.onlog import find_orders
from services.importing.placing import Rejects, to_place
from services.importing.report import Report
from services.importing.source import Source
from services.importing.survey import Survey, survey
from services.importing.waiting import waiting_orders
from services.importing.watching import Watch
from services.outside import open_ports
from services.settings import ShopSettings, shop_settings

_QUIET_S = 2.0
_LONGEST_QUIET_S = 60.0
_IDLE_S = 10.0
_SHOW_S = 0.2


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


class Progress(Protocol):
    """Receives an import's progress."""

    def surveyed(self, read: int) -> None:
        """Report how many orders the first pass has read."""

    def doing(self, what: str) -> None:
        """Report that a step without a count begins."""

    def counted(self, placed: int, ended: int, total: int) -> None:
        """Report how many orders that can be placed are on the log, and how many have ended."""


async def import_file(path: Path, config: ImportConfig, progress: Progress) -> Report:
    """Import a file's orders; see the module `services.importing`.

    Guarantee: a second import of the same content adds nothing to the event topics; an interrupted one continues.
    Raises: UnreadableFile before anything is placed; terminal errors of the log or a service.
    """
    if config.rejects is not None and config.rejects.exists() and config.rejects.samefile(path):
        raise WiringError(f"--rejects {config.rejects} is the imported file: name another one")
    if config.rejects is not None and not config.rejects.parent.is_dir():
        raise WiringError(f"--rejects {config.rejects}: there is no directory {config.rejects.parent}")
    source = Source(path)
    found = survey(source, progress.surveyed)
    async with AsyncExitStack() as stack:
        rejects = stack.enter_context(Rejects(config.rejects))
        log = await stack.enter_async_context(open_log(config.log_url, shop))
        running = Import(log, source, found, rejects, config, progress)
        if config.place_only:
            return await running.place_only()
        ports = await stack.enter_async_context(open_ports(config.settings, config.log_url))
        runtime = await stack.enter_async_context(Runtime(log, ports=ports, config=config.runtime))
        return await running.see_through(runtime)


class Import:
    """A running import."""

    def __init__(
        self, log: EventLog, source: Source, found: Survey, rejects: Rejects, config: ImportConfig, progress: Progress
    ) -> None:
        self._log = log
        self._source = source
        self._found = found
        self._rejects = rejects
        self._config = config
        self._progress = progress
        self._report = Report(source.path.name, config.log_url, config.place_only, found.read, len(found.products))
        self._outcomes = self._report.outcomes
        self._watch = Watch(log, found.known, self._outcomes)
        self._quiet_s = _QUIET_S

    async def place_only(self) -> Report:
        """Publish everything, and leave the rest to services that run elsewhere."""
        await self._begin()
        await self._place(follow=False)
        return self._report

    async def see_through(self, runtime: Runtime) -> Report:
        """Publish everything, and wait until every order has ended or waits for something parked."""
        await self._first(self._placed_and_ended(runtime), runtime.failed())
        return self._report

    async def _placed_and_ended(self, runtime: Runtime) -> None:
        first_ms = await self._begin()
        await self._watch.start(first_ms)
        started, events = time.monotonic(), await self._events()
        await self._first(self._until_ended(), self._watch.run(), self._show())
        with suppress(TimeoutError):  # another process may own tasks, and continue with them
            async with asyncio.timeout(_IDLE_S):
                await runtime.idle()
        self._report.seconds = time.monotonic() - started
        self._report.events = await self._events() - events

    async def _begin(self) -> int | None:
        """List products, deliver stock; return when the first order of this file was placed (ms), if any was."""
        self._progress.doing("reading what the log has already")
        count, first_ms = await find_orders(self._log, self._found.known)
        self._outcomes.placed = count
        self._progress.doing("listing products and delivering stock")
        catalogue = await prepare(self._log, self._found, self._config.stock_units)
        self._report.catalogue = catalogue
        if catalogue.other_units:
            self._report.notes.append(
                f"{catalogue.other_units:,} deliveries of this file are on the log with another number of units: "
                "they stay as they are"
            )
        config = self._config
        patience_s = config.place_only_patience_s if config.place_only else config.patience_s
        if first_ms is None and not await arrival(self._log, catalogue, patience_s):
            self._report.notes.append("the stock has not arrived yet: some orders may be refused as out of stock")
        return first_ms

    async def _place(self, *, follow: bool) -> None:
        batch, lines = list[Publication](), 0
        placing = self._report.placing
        for order, request in to_place(self._source, self._found.known, self._log.codec, placing, self._rejects):
            # Registered before it is on the log, so that its end is never read for an unknown order.
            self._found.known.learn(order.order_id, Known.PLACED)
            self._outcomes.placed += 1
            batch.append(request)
            lines += len(order.lines)
            if len(batch) >= self._config.batch_orders or lines >= self._config.batch_lines:
                await self._log.publish_many(batch)
                batch, lines = [], 0
                self._count()
                while follow and self._outcomes.open - len(self._report.waiting) >= self._config.open_orders:
                    await self._look()
        if batch:
            await self._log.publish_many(batch)
        self._count()

    async def _until_ended(self) -> None:
        await self._place(follow=True)
        await self._watch.catch_up()
        while self._outcomes.open:
            if await self._look() and len(self._report.waiting) >= self._outcomes.open:
                break
        else:
            self._report.waiting = []

    async def _look(self) -> bool:
        """Wait for an order to end; when none has for a while, find out which ones wait for something parked."""
        ended = self._outcomes.ended
        with suppress(TimeoutError):
            async with asyncio.timeout(self._quiet_s):
                while self._outcomes.ended == ended:
                    await self._watch.wait(self._quiet_s)
        if self._outcomes.ended > ended:
            self._quiet_s = _QUIET_S
            return False
        self._quiet_s = min(2 * self._quiet_s, _LONGEST_QUIET_S)
        await self._watch.catch_up()
        open_orders = {order.correlation_id: order_id for order_id, order in self._watch.open_orders.items()}
        self._report.waiting = [*(await waiting_orders(self._log, open_orders)).values()]
        return True

    async def _show(self) -> None:
        while True:
            self._count()
            await asyncio.sleep(_SHOW_S)

    def _count(self) -> None:
        self._progress.counted(self._outcomes.placed, self._outcomes.ended, self._found.placeable)

    async def _events(self) -> int:
        ends = [
            await self._log.port.end(topic.name, partition)
            for topic in event_topics(self._log)
            for partition in range(topic.partitions)
        ]
        return sum(ends)

    async def _first(self, work: Coroutine[Any, Any, None], *others: Coroutine[Any, Any, None]) -> None:
        """Run work beside endless tasks; the first to end or fail decides."""
        tasks = [asyncio.ensure_future(each) for each in (work, *others)]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
