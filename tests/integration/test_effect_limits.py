"""Effects under limits in a running service: the gateway sees no more than it allows, and waiting costs no attempt."""

import asyncio
from collections.abc import Mapping

import pytest

from eventlib import ContractError, Event, Publication, Retry, Runtime, RuntimeConfig, WiringError, open_log
from eventlib.eventlog import EventLog
from eventlib.limits import Limit
from eventlib.operations.pausing import Numbers, pause, resume, settled
from eventlib.queries.pauses import PauseTarget, pauses
from eventlib.runtime.effect_queue import Ticket
from eventlib.runtime.turns import EffectTurns, Turn
from tests.handling import handle_all
from tests.integration.limited_shop import ChargeAsked, Charged, Gateway, Ordered, numbered, run, said, shop


async def test_the_gateway_is_called_at_the_rate_of_its_limit() -> None:
    gateway, limit = Gateway(), Limit(per_second=50, burst=5)
    charged, uncharged = await run(shop({"gateway": limit}), gateway, numbered(60))
    assert (len(set(charged)), uncharged) == (60, [])
    times = sorted(at for at, _ in gateway.called)
    assert times[-1] - times[0] >= (60 - 5) / 50 - 0.5  # a busy machine makes the first ones late


async def test_no_more_calls_are_out_at_once_than_its_limit() -> None:
    gateway = Gateway(takes_s=0.02)
    charged, _ = await run(shop({"gateway": Limit(concurrent=9)}), gateway, numbered(60))
    assert len(charged) == 60
    assert gateway.most_out == 9


async def test_waiting_uses_up_no_attempt_and_each_retry_waits_for_its_turn() -> None:
    gateway = Gateway(failing={"0", "1"})
    retry = Retry(attempts=3, first_pause_s=0.001, jitter_s=0.001)
    charged, uncharged = await run(shop({ChargeAsked: Limit(per_second=100)}, retry), gateway, numbered(30))
    assert sorted(uncharged) == ["0", "1"]
    assert len(charged) == 28
    assert gateway.calls["0"] == gateway.calls["1"] == 3
    times = [at for at, _ in gateway.called]
    assert times[-1] - times[0] >= len(times) / 100 - 0.2  # the retries' calls waited as well


async def test_a_customer_with_many_orders_delays_another_by_its_share() -> None:
    """The second customer's orders come when the first one's have filled what a task takes without limits many times over."""
    gateway = Gateway()
    config = RuntimeConfig(pending_effects=5)

    async def more(log: EventLog, runtime: Runtime) -> None:
        while sum(task.open_effects for task in runtime.tasks) < 900:
            await asyncio.sleep(0.01)
        await log.publish_many([Publication(Ordered(order_id=f"small{n}", customer_id="small")) for n in range(10)])

    limit = Limit(per_second=400, burst=8, key="customer_id")
    await run(shop({"gateway": limit}), gateway, numbered(1_000, "large"), more, config)
    order = [order_id for _, order_id in gateway.called]
    assert len(order) == 1_010
    first = order.index("small0")
    smalls = [n for n, order_id in enumerate(order) if order_id.startswith("small")]
    assert smalls[-1] - smalls[0] <= 2 * 10 + 8, (first, smalls)


@pytest.mark.slow
async def test_one_customers_100_000_orders_delay_another_by_its_share() -> None:
    """As above, with what the settings allow: all of the large customer's orders wait when the small one's come."""
    gateway, limit = Gateway(), Limit(per_second=200, burst=8, key="customer_id")
    choreography = shop({"gateway": limit})
    async with open_log("memory://", choreography) as log:
        large = [Publication(Ordered(order_id=o, customer_id=c)) for o, c in numbered(100_000, "large").items()]
        for first in range(0, len(large), 1_000):
            await log.publish_many(large[first : first + 1_000])
        async with Runtime(log, ports={"gateway": gateway}) as runtime:
            while sum(task.open_effects for task in runtime.tasks) + len(gateway.called) < len(large):
                await asyncio.sleep(0.1)
            before = len(gateway.called)
            await log.publish_many(
                [Publication(Ordered(order_id=o, customer_id=c)) for o, c in numbered(50, "small").items()]
            )
            while not (smalls := [n for n, (_, o) in enumerate(gateway.called) if o.startswith("small")])[49:]:
                await asyncio.sleep(0.1)
    assert before < len(large) / 2, "most of them waited"
    assert smalls[-1] - smalls[0] <= 2 * 50 + 8, smalls
    assert gateway.called[smalls[-1]][0] - gateway.called[before][0] <= 3 * 2 * 50 / 200, (
        "it takes its share of the time, not the backlog's"
    )


async def test_what_waits_at_a_limit_goes_on_after_a_restart() -> None:
    gateway = Gateway()
    choreography = shop({"gateway": Limit(per_second=100)})
    async with open_log("memory://", choreography) as log:
        await log.publish_many([Publication(Ordered(order_id=str(n))) for n in range(60)])
        async with Runtime(log, ports={"gateway": gateway}) as runtime, asyncio.timeout(60):
            while len(gateway.called) < 20:
                await asyncio.sleep(0.005)
            assert sum(task.open_effects for task in runtime.tasks) > 0
        await handle_all(log, ports={"gateway": gateway})
        assert sorted(await said(log, Charged)) == sorted(str(n) for n in range(60))
    assert set(gateway.calls.values()) == {1}


async def test_customers_take_turns_after_a_restart_too() -> None:
    gateway = Gateway()
    limit = Limit(per_second=100, key="customer_id")
    async with open_log("memory://", shop({"gateway": limit})) as log:
        orders = numbered(60, "large") | numbered(6, "small")
        await log.publish_many([Publication(Ordered(order_id=o, customer_id=c)) for o, c in orders.items()])
        async with Runtime(log, ports={"gateway": Gateway(takes_s=60)}, config=RuntimeConfig(grace_s=0)) as runtime:
            while sum(task.open_effects for task in runtime.tasks) < 66:
                await asyncio.sleep(0.005)
        await handle_all(log, ports={"gateway": gateway})
    assert len(gateway.called) == 66
    last = max(n for n, (_, order_id) in enumerate(gateway.called) if order_id.startswith("small"))
    assert last < 30, "else they had waited behind all of the other's"


async def test_a_task_that_is_lost_takes_no_turn_and_the_others_go_on() -> None:
    gateway = Gateway()
    async with open_log("memory://", shop({"gateway": Limit(per_second=200)})) as log:
        await log.publish_many([Publication(Ordered(order_id=str(n))) for n in range(80)])
        async with Runtime(log, ports={"gateway": gateway}) as runtime, asyncio.timeout(60):
            while sum(task.open_effects for task in runtime.tasks) < 60:
                await asyncio.sleep(0.005)
            await log.port.seize("orders", 0)
            await runtime.idle()
        assert set(await said(log, Charged)) == {str(n) for n in range(80)}


async def test_a_task_gives_up_its_share_once_it_finds_that_another_owns_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """The membership may learn of it much later, and until then the two would take twice the share."""
    given_up, disown = list[int](), EffectTurns.disown

    def noting(turns: EffectTurns, partition: int) -> None:
        given_up.append(partition)
        disown(turns, partition)

    monkeypatch.setattr(EffectTurns, "disown", noting)
    async with open_log("memory://", shop({"gateway": Limit()})) as log:
        async with Runtime(log, ports={"gateway": Gateway()}) as runtime, asyncio.timeout(10):
            await runtime.idle()
            log.port._owners.claim("orders", 0)  # type: ignore[attr-defined]  # noqa: SLF001  as another process does
            await log.publish_many([Publication(Ordered(order_id=str(n))) for n in range(80)])
            while not given_up:
                await asyncio.sleep(0.005)
        assert given_up[0] == 0


async def test_an_operator_sets_a_limit_while_effects_wait_and_it_outlives_a_restart() -> None:
    gateway, choreography = Gateway(), shop({"gateway": Limit(per_second=8)})
    target = PauseTarget("orders", limit="gateway")
    async with open_log("memory://", choreography) as log:
        await log.publish_many([Publication(Ordered(order_id=str(n))) for n in range(200)])
        async with Runtime(log, ports={"gateway": gateway}) as runtime, asyncio.timeout(60):
            while sum(task.open_effects for task in runtime.tasks) < 190:
                await asyncio.sleep(0.01)
            await pause(log, target, "ann", "their night is over", Numbers(per_second=400, burst=16))
            assert await settled(log, target, 10) is not None
            while len(gateway.called) < 60:
                await asyncio.sleep(0.005)
        async with Runtime(log, ports={"gateway": gateway}) as runtime, asyncio.timeout(60):
            await runtime.idle()
            (known,) = await pauses(log)
            assert (known.tasks, known.asked, known.by, known.allows) == (8, 0, "ann", "400 a second, 16 at once")
            await pause(log, target, "ben", "less", Numbers(per_second=40))
            known_again = await settled(log, target, 10)
            assert known_again is not None
            assert (known_again.by, known_again.allows) == ("ben", "40 a second")
            await resume(log, target, "ben")
            assert await settled(log, target, 10) is None
    assert set(gateway.calls.values()) == {1}
    assert len(gateway.called) == 200  # at the declared rate it would take 25 s


@pytest.mark.parametrize(
    ("numbers", "words"),
    [(Numbers(), "give limit gateway of orders a number"), (Numbers(concurrent=7), "less than its 8 partitions")],
)
async def test_numbers_that_cannot_be_shared_out_are_refused(numbers: Numbers, words: str) -> None:
    async with open_log("memory://", shop({"gateway": Limit()})) as log:
        with pytest.raises(ContractError, match=words):
            await pause(log, PauseTarget("orders", limit="gateway"), "ann", "why", numbers)


async def test_only_a_declared_limit_can_be_set() -> None:
    async with open_log("memory://", shop({"gateway": Limit()})) as log:
        with pytest.raises(ContractError, match="declares no limit of 'bank': it limits gateway"):
            PauseTarget.of(log, "orders", limit="bank")


@pytest.mark.parametrize(
    ("limits", "words"),
    [
        (
            {"bank": Limit()},
            "limits 'bank', which is neither a port nor a request of its effects: ChargeAsked, gateway",
        ),
        ({"gateway": Limit(concurrent=7)}, "concurrent=7 is less than its 8 partitions"),
        ({"gateway": Limit(key="customer")}, "ChargeAsked has no such field"),
        ({"gateway": Limit(priority=2)}, "priority is one of a kind of effect"),
        ({"gateway": Limit(), ChargeAsked: Limit(key="order_id")}, "in the limit of its port gateway"),
    ],
)
def test_a_service_refuses_limits_that_cannot_hold(limits: Mapping[str | type[Event], Limit], words: str) -> None:
    with pytest.raises(WiringError, match=words):
        shop(limits)


async def test_what_is_cancelled_while_it_waits_leaves_its_turn_and_its_slot_to_others() -> None:
    turns = EffectTurns(shop({"gateway": Limit()}).services[0], 2, {})
    line, limits = turns.lines["ChargeAsked"], {"gateway": Limit(per_second=400)}
    waiting = [Turn(line, Ticket(str(n), "ChargeAsked", "", None, 0.0), 0.0) for n in range(3)]
    for turn in waiting:
        turn._has_it = False  # noqa: SLF001  each has to wait, as before a retry

    async def use(turn: Turn) -> None:
        await turn.begin()
        turn.give_back()

    first = asyncio.create_task(use(waiting[0]))
    await asyncio.sleep(0.01)
    first.cancel()
    await asyncio.gather(first, return_exceptions=True)
    assert line.queue.waiting == 0
    turns.own(0, limits)
    async with asyncio.timeout(10):
        await asyncio.gather(*map(use, waiting[1:]))
    assert line.turns == 2
    assert not turns.slots.locked()
    turns.close()
