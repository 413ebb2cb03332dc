"""Effects that are plain functions: in threads, under the time-outs, limits and keys of all effects."""

import asyncio
import threading
import time
from dataclasses import dataclass, field

import pytest

from eventlib import Choreography, Decider, Event, Meta, Retry, Runtime, RuntimeConfig, Service, open_log
from eventlib.eventlog import SAGA
from eventlib.limits import Limit
from eventlib.model.topic import Topic
from tests.handling import handle_all
from tests.integration.reopening import events, everything

PATIENCE_S = 60.0
LONG_S = 60.0
CHARGES = Topic("charges", partitions=1)


class Asked(Event, topic=Topic("asked", partitions=1), key="order_id", request=True):
    order_id: str


class ChargeWanted(Event, topic=CHARGES, key="order_id"):
    order_id: str


class Charged(Event, topic=CHARGES, key="order_id"):
    order_id: str
    by: str


class Unknown(Event, topic=CHARGES, key="order_id"):
    order_id: str


@dataclass(frozen=True)
class Order:
    charged: int = 0


@dataclass
class Sdk:
    """A payment SDK that blocks: the order `slow` until it is `freed`."""

    freed: threading.Event = field(default_factory=threading.Event)
    calls: list[tuple[str, str]] = field(default_factory=list)
    threads: set[str] = field(default_factory=set)
    sagas: set[str | None] = field(default_factory=set)

    def charge(self, key: str, order_id: str) -> str:
        self.calls.append((order_id, key))
        self.threads.add(threading.current_thread().name)
        self.sagas.add(SAGA.get())
        if order_id == "slow":
            self.freed.wait(LONG_S)
        if order_id == "stops":
            raise StopIteration
        return key


def shop(timeout_s: float = 10.0, attempts: int = 2, concurrent: int | None = None) -> Choreography:
    orders: Decider[Order] = Decider("order", state=Order, key="order_id")

    @orders.on
    def ask(_order: Order, asked: Asked) -> list[ChargeWanted]:
        return [ChargeWanted(order_id=asked.order_id)]

    orders.follows(Charged, Unknown)

    def give_up(wanted: ChargeWanted) -> Unknown:
        return Unknown(order_id=wanted.order_id)

    retry = Retry(attempts=attempts, first_pause_s=0, jitter_s=0)

    @orders.effect(ChargeWanted, retry=retry, timeout_s=timeout_s, otherwise=give_up)
    def charge(wanted: ChargeWanted, sdk: Sdk, meta: Meta) -> Charged:
        return Charged(order_id=wanted.order_id, by=sdk.charge(meta.id, wanted.order_id))

    limits: dict[str | type[Event], Limit] = {} if concurrent is None else {"sdk": Limit(concurrent=concurrent)}
    return Choreography("plain", [Service("orders", deciders=[orders], effects="all", limits=limits)])


async def test_a_plain_effect_runs_in_a_thread_and_is_answered_under_its_key() -> None:
    sdk = Sdk()
    async with open_log("memory://", shop()) as log:
        await log.publish_many([Asked(order_id="1"), Asked(order_id="stops")])
        await handle_all(log, ports={"sdk": sdk})
        wanted = {each.id for each in await everything(log, "charges") if each.type == "ChargeWanted"}
        answers = [each for each in await events(log, "charges") if not isinstance(each, ChargeWanted)]
        assert {type(each) for each in answers} == {Charged, Unknown}
        assert {key for _, key in sdk.calls} == wanted
        assert [order for order, _ in sdk.calls].count("stops") == 2, "it is tried again as any other"
        assert all(name.startswith("effect for ChargeWanted") for name in sdk.threads)
        assert None not in sdk.sagas, "what it does belongs to its saga"


async def test_a_plain_effect_that_blocks_holds_up_nothing_else() -> None:
    sdk = Sdk()
    async with open_log("memory://", shop()) as log:
        await log.publish_many([Asked(order_id="slow"), Asked(order_id="1")])
        async with Runtime(log, ports={"sdk": sdk}) as runtime, asyncio.timeout(PATIENCE_S):
            while not [each for each in await events(log, "charges") if isinstance(each, Charged)]:
                await asyncio.sleep(0.01)
            sdk.freed.set()
            await runtime.idle()
        assert {each.order_id for each in await events(log, "charges") if isinstance(each, Charged)} == {"slow", "1"}


@pytest.mark.parametrize("concurrent", [None, 2], ids=["slots", "limit"])
async def test_a_thread_that_is_over_time_keeps_its_slot_until_it_ends(concurrent: int | None) -> None:
    sdk = Sdk()
    async with open_log("memory://", shop(timeout_s=0.05, concurrent=concurrent)) as log:
        await log.publish(Asked(order_id="slow"))
        config = RuntimeConfig(concurrent_effects=2, grace_s=0)
        async with Runtime(log, ports={"sdk": sdk}, config=config) as runtime, asyncio.timeout(PATIENCE_S):
            while not [each for each in await events(log, "charges") if isinstance(each, Unknown)]:
                await asyncio.sleep(0.01)
            assert [order for order, _ in sdk.calls] == ["slow"] * 2, "each attempt has a slot of its own"
            await log.publish(Asked(order_id="1"))
            while not any(runner.open_effects for runner in runtime.tasks):
                await asyncio.sleep(0.01)
            await asyncio.sleep(0.05)  # long enough for what must not happen: both slots are taken
            assert len(sdk.calls) == 2
            sdk.freed.set()
            await runtime.idle()
        assert [each.order_id for each in await events(log, "charges") if isinstance(each, Charged)] == ["1"]


async def test_a_runtime_ends_without_a_thread_that_hangs(caplog: pytest.LogCaptureFixture) -> None:
    sdk = Sdk()
    async with open_log("memory://", shop()) as log:
        await log.publish(Asked(order_id="slow"))
        began = time.monotonic()
        async with Runtime(log, ports={"sdk": sdk}, config=RuntimeConfig(grace_s=0)), asyncio.timeout(PATIENCE_S):
            while not sdk.calls:
                await asyncio.sleep(0.01)
        assert time.monotonic() - began < LONG_S / 2
        assert "still runs in its thread" in caplog.text
        sdk.freed.set()
        await handle_all(log, ports={"sdk": sdk})
        assert len({key for _, key in sdk.calls}) == 1, "it runs again under its key"
