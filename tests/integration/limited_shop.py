"""A service whose effects may be limited, and a gateway that notes when it was called and how often at once."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Never

from eventlib import (
    Choreography,
    Decider,
    Event,
    OutcomeUnknown,
    Publication,
    Retry,
    Runtime,
    RuntimeConfig,
    Service,
    open_log,
)
from eventlib.eventlog import EventLog
from eventlib.limits import Limit


class Ordered(Event, topic="orders.requests", key="order_id", request=True):
    order_id: str
    customer_id: str = ""


class ChargeAsked(Event, topic="charges", key="order_id"):
    order_id: str
    customer_id: str = ""


class Charged(Event, topic="charges", key="order_id"):
    order_id: str


class Uncharged(Event, topic="charges", key="order_id"):
    order_id: str


@dataclass(frozen=True)
class Order:
    charged: bool = False


@dataclass
class Gateway:
    """A gateway that takes its time, and notes when it was called and how often at once."""

    takes_s: float = 0.0
    failing: set[str] = field(default_factory=set)
    called: list[tuple[float, str]] = field(default_factory=list)
    out: int = 0
    most_out: int = 0

    async def charge(self, order_id: str) -> None:
        self.called.append((asyncio.get_running_loop().time(), order_id))
        self.out += 1
        self.most_out = max(self.out, self.most_out)
        try:
            await asyncio.sleep(self.takes_s)
        finally:
            self.out -= 1
        if order_id in self.failing:
            raise OutcomeUnknown("no answer")

    @property
    def calls(self) -> Counter[str]:
        return Counter(order_id for _, order_id in self.called)


def shop(limits: Mapping[str | type[Event], Limit], retry: Retry | None = None) -> Choreography:
    orders: Decider[Order] = Decider("order", state=Order, key="order_id")

    @orders.on(Ordered)
    def order(_: Order, event: Ordered) -> list[ChargeAsked]:
        return [ChargeAsked(order_id=event.order_id, customer_id=event.customer_id)]

    @orders.on(Charged, Uncharged)
    def note(_: Order, _answer: Charged | Uncharged) -> list[Never]:
        return []

    def otherwise(event: ChargeAsked) -> Uncharged:
        return Uncharged(order_id=event.order_id)

    @orders.effect(ChargeAsked, retry=retry, otherwise=otherwise)
    async def charge(event: ChargeAsked, gateway: Gateway) -> Charged:
        await gateway.charge(event.order_id)
        return Charged(order_id=event.order_id)

    return Choreography("s", [Service("orders", deciders=[orders], effects="all", limits=limits)])


async def said(log: EventLog, kind: type[Event]) -> list[str]:
    found = list[str]()
    for partition in range(8):
        records = await log.port.read("charges", partition, 0, 10_000)
        found += [record.subject or "" for record in records if record.type == kind.__name__]
    return found


async def run(
    choreography: Choreography,
    gateway: Gateway,
    orders: Mapping[str, str],
    meanwhile: Callable[[EventLog, Runtime], Awaitable[None]] | None = None,
    config: RuntimeConfig | None = None,
) -> tuple[list[str], list[str]]:
    """Run the orders, each with its customer, to their end; return those that were charged, and that were not."""
    async with open_log("memory://", choreography) as log:
        await log.publish_many([Publication(Ordered(order_id=o, customer_id=c)) for o, c in orders.items()])
        async with Runtime(log, ports={"gateway": gateway}, config=config) as runtime, asyncio.timeout(60):
            if meanwhile is not None:
                await meanwhile(log, runtime)
            await runtime.idle()
        return await said(log, Charged), await said(log, Uncharged)


def numbered(count: int, customer: str = "") -> dict[str, str]:
    return {f"{customer}{n}": customer for n in range(count)}
