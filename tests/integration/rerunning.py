"""What tests do with the market: busy days, reruns of its past, taking them over, and the books afterwards."""

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from eventlib import Event, EventLog, Publication, Runtime
from eventlib.operations.reprocessing.comparison import Difference, difference
from eventlib.operations.reprocessing.cutover import Switched, switch
from eventlib.operations.reprocessing.metadata import RerunSpec
from eventlib.operations.reprocessing.running import rerunning
from eventlib.state.base import Stores
from eventlib.state.memory import MemoryStores
from tests.apps.market import BasketSent, Code, GivenBack, Kept, Stocked, Till, market
from tests.handling import handle_all
from tests.integration.reopening import Opened, events, everything

WHY = "ada: the handler was wrong"


async def stock(log: EventLog, **units: int) -> None:
    await log.publish_many([Publication(Stocked(sku=sku, units=number)) for sku, number in units.items()])


async def send(log: EventLog, baskets: Sequence[tuple[str, str]]) -> None:
    """Send baskets: each a name and its lines, one letter for each SKU."""
    sent = [Publication(BasketSent(basket=name, lines=tuple(lines)), name) for name, lines in baskets]
    await log.publish_many(sent)


async def settle(log: EventLog, till: Till | None = None) -> None:
    await handle_all(log, ports={"till": till or Till()})


@asynccontextmanager
async def serving(log: EventLog, till: Till | None = None) -> AsyncIterator[Runtime]:
    async with Runtime(log, ports={"till": till or Till()}) as runtime, asyncio.timeout(120):
        yield runtime


async def run_it_again(log: EventLog, service: str, name: str = "again", *, until_ms: int = 0) -> Difference:
    """Run a service's past again, to its end, and return what differs."""
    old = log.choreography.service(service)
    async with rerunning(log, MemoryStores(), old, name, RerunSpec(WHY, until_ms=until_ms)) as again:
        return await difference(again, 10)


async def run_again(log: EventLog, stores: Stores, name: str = "again", *, follow: bool = False) -> None:
    """Run the store's past again, with local stores that outlive it."""
    async with rerunning(log, stores, log.choreography.service("store"), name, RerunSpec(WHY, follow=follow)):
        pass


async def switched(
    opened: Opened, code: Code, name: str = "again", *, runs_effects: bool = False, since_ms: int = 0
) -> Switched:
    """Run the store's past again with other code, and switch."""
    async with opened(market(code)) as log:
        service = log.choreography.service("store")
        async with rerunning(log, MemoryStores(), service, name, RerunSpec(WHY, since_ms)) as again:
            return await switch(again, WHY, runs_effects=runs_effects)


@asynccontextmanager
async def taken_over(opened: Opened, **how: Any) -> AsyncIterator[tuple[EventLog, Switched]]:
    """Take over a rerun, open the log with its code, and see afterwards that the service goes on and its shelves are right."""
    done = await switched(opened, Code(), **how)
    async with opened(market()) as log:
        yield log, done
        await live_goes_on(log)


async def check_laws(log: EventLog) -> None:
    """Every id once, every cause there; a shelf knows what was said; nothing is below zero."""
    found = [r for t in ("requests", "stock", "answers", "charges", "closed") for r in await everything(log, t)]
    facts = [r.event_id for r in found if r.type != "BasketSent"]
    assert len(facts) == len(set(facts))
    ids = {r.event_id for r in found}
    assert not [r for r in found if r.causation_id is not None and r.causation_id not in ids]
    by_key = dict[tuple[str, str], list[int]]()
    for record in found:
        if record.sequence is not None:
            by_key.setdefault((record.source or "", record.subject or ""), []).append(record.sequence)
    for sequences in by_key.values():
        assert sorted(sequences) == list(range(1, len(sequences) + 1)), "what is said under a key is counted through"


async def units_left(log: EventLog, name: str = "") -> Counter[str]:
    """Return what has to be on each shelf: stocked - kept + given back, of all on the log, or of what a rerun emitted."""
    left = Counter[str]()
    for each in await events(log, "stock"):
        if isinstance(each, Stocked):
            left[each.sku] += each.units
    moves = [
        *(await said_by_rerun(log, "answers", name) if name else await events(log, "answers")),
        *(await said_by_rerun(log, "stock", name) if name else await events(log, "stock")),
    ]
    for moved in moves:
        if isinstance(moved, Kept | GivenBack):
            left[moved.sku] += 1 if isinstance(moved, GivenBack) else -1
    return left


async def check_shelves(log: EventLog, rerun: str = "") -> None:
    """See that a service, or a rerun of it, has on its shelves what events say, and nothing below zero."""
    shelves, left = await shelves_of(log, rerun or "store"), await units_left(log, rerun)
    assert shelves == {sku: left[sku] for sku in shelves}
    assert min(shelves.values()) >= 0


async def live_goes_on(log: EventLog, seed: int = 77, *, shelves: bool = True) -> None:
    """Let the service go on for a while, and everybody be answered; then its shelves are right, unless they were oversold."""
    await settle(log)
    before = len(await events(log, "closed"))
    baskets = random_baskets(20, seed)
    await send(log, baskets)
    await settle(log)
    assert len(await events(log, "closed")) == before + len(baskets)
    await check_laws(log)
    if shelves:
        await check_shelves(log)


async def some_short_baskets(log: EventLog) -> None:
    """Nobody asks for A and B any more when it shows that there is no C."""
    await stock(log, A=9, B=9)
    await settle(log)
    await send(log, [(f"s{n}", "ABC") for n in range(6)])
    await settle(log)


def random_baskets(count: int, seed: int, skus: str = "ABCD") -> list[tuple[str, str]]:
    rng = random.Random(seed)
    return [(f"b{seed}-{n}", "".join(rng.choices(skus, k=rng.randint(1, 4)))) for n in range(count)]


async def busy_days(log: EventLog, seed: int = 1) -> None:
    """Let many baskets compete for a few units, some at once and some later."""
    await stock(log, A=15, B=20, C=8)
    async with serving(log) as runtime:
        for wave in range(4):
            await send(log, random_baskets(15, seed + wave))
            await asyncio.sleep(0.01 * wave)
        await runtime.idle()
        await stock(log, C=5)
        await send(log, random_baskets(15, seed + 9))
        await runtime.idle()


async def shelves_of(log: EventLog, name: str) -> dict[str, int]:
    newest = {record.key: record for record in await everything(log, f"{name}.changelog")}
    shelf = log.choreography.decider("shelf")
    found = dict[str, int]()
    for key, record in newest.items():
        if (key or b"").startswith(b"state/shelf/") and record.value:
            found[(key or b"").decode()[12:]] = log.codec.decode(shelf.state, record.value).left
    return found


def by_decider(found: Difference) -> dict[str, tuple[int, int, int]]:
    return {each.decider: (each.missing, each.extra, each.other) for each in found.deciders}


async def said_by_rerun(log: EventLog, topic: str, name: str = "again") -> list[Event | None]:
    return [log.decode(r.replace(topic=topic)) for r in await everything(log, f"{name}.said.{topic}")]
