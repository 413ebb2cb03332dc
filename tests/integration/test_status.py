"""How services stand, from their log alone: owners, lag, what is parked and pending, sagas; and whether that is well."""

import asyncio
import json
from pathlib import Path

import pytest

from eventlib import Choreography, Runtime, RuntimeConfig, open_log
from eventlib.cli import run
from eventlib.model.saga_status import SagaState, SagaStates
from eventlib.operations.complaints import Limits, complaints
from eventlib.operations.status import StatusReader
from tests.apps.small_shop import Order, Ordered, Outside, make_shop
from tests.handling import handle_all
from tests.integration.shop_log import Print


def standing(order: Order) -> SagaState | None:
    return SagaState("charged" if order.charged else "open", bool(order.charged), order.count > 1)


def with_sagas(broken: set[str]) -> Choreography:
    code = make_shop(broken)
    code.sagas = SagaStates(code.decider("order"), standing)
    return code


@pytest.fixture(params=["memory", "sqlite"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return "memory://" if request.param == "memory" else f"sqlite:///{tmp_path}/log.db"


async def test_a_log_that_nobody_runs_on_and_one_that_somebody_does(url: str) -> None:
    async with open_log(url, with_sagas({"bad"})) as log:
        reader = StatusReader(log, with_sagas=True)
        await log.publish(Ordered(order_id="1", cents=1))
        before = await reader.read()
        assert sum(task.lag for task in before.tasks) == 1
        assert [task.handled_at for task in before.tasks] == [None] * 8
        gate = asyncio.Event()
        async with Runtime(log, ports={"gateway": Outside(gate=gate)}), asyncio.timeout(120):
            for order_id in ("bad", "bad", "2"):
                await log.publish(Ordered(order_id=order_id, cents=1))
            while not (status := await reader.read()).parked or sum(task.pending for task in status.tasks) < 2:
                await asyncio.sleep(0.02)
            await asyncio.sleep(0.05)
            status = await reader.read()
            if status.owners_known:
                assert None not in {task.owner for task in status.tasks}
            assert sum(task.pending for task in status.tasks) == 2
            (asked,) = status.unanswered
            assert (asked.service, asked.effect, asked.count, asked.key) == ("orders", "ChargeAsked", 2, "1")
            assert before.at <= asked.since <= status.at
            assert sum(task.parked_keys for task in status.tasks) == 1
            assert sum(task.parked_inputs for task in status.tasks) == 2
            assert status.sagas is not None
            assert {(each.state, each.count) for each in status.sagas} == {("open", 2)}
            assert status.said_per_s["orders.requests"] == 4 / 60
            gate.set()
            while any(task.pending for task in (await reader.read()).tasks):
                await asyncio.sleep(0.02)
        after = await reader.read()
        assert after.unanswered == []
        assert after.sagas is not None
        assert {(each.state, each.count, each.has_ended) for each in after.sagas} == {("charged", 2, True)}
        assert [parking.key for parking in after.parked] == ["bad"]


async def test_a_task_that_comes_to_rest_says_how_far_it_is(tmp_path: Path) -> None:
    async with open_log(f"sqlite:///{tmp_path}/log.db", make_shop(set())) as log:
        config = RuntimeConfig(flush_s=0.1)
        async with Runtime(log, ports={"gateway": Outside()}, config=config) as runtime, asyncio.timeout(120):
            await log.publish(Ordered(order_id="1", cents=1))
            await runtime.idle()
            reader = StatusReader(log)
            while any(task.lag for task in (await reader.read()).tasks):  # the last inputs made no difference
                await asyncio.sleep(0.02)
            commits = runtime.transactions
            await asyncio.sleep(0.5)
            assert runtime.transactions == commits, "then it is silent"


async def test_what_is_not_well(url: str) -> None:
    async with open_log(url, with_sagas({"bad"})) as log:
        for order_id in ("bad", "1", "1"):
            await log.publish(Ordered(order_id=order_id, cents=1))
        await handle_all(log, ports={"gateway": Outside()})
        status = await StatusReader(log, with_sagas=True).read()
        lenient = Limits(behind_s=60, parked=1, overdue=1, may_stop=True)
        assert complaints(status, lenient) == []
        assert complaints(status, Limits(60, 0, 1, may_stop=True)) == ["1 parked: `eventlib parked list`"]
        assert complaints(status, Limits(60, 1, 0, may_stop=True)) == ["1 sagas overdue"]
        await log.publish(Ordered(order_id="2", cents=1))
        await asyncio.sleep(0.01)
        status = await StatusReader(log).read()
        (late,) = complaints(status, Limits(0, 1, 1, may_stop=True))
        assert late.startswith("orders: 1 inputs behind, the oldest for")


async def test_a_second_look_reads_only_what_is_new(tmp_path: Path) -> None:
    async with open_log(f"sqlite:///{tmp_path}/log.db", make_shop(set())) as log:
        for n in range(200):
            await log.publish(Ordered(order_id=str(n), cents=1))
        await handle_all(log, ports={"gateway": Outside()})
        reader = StatusReader(log)
        await reader.read()
        assert reader.records_read == 0, "the local stores had all of it"
        await reader.read()
        assert reader.records_read == 0


def test_the_screen_the_exit_code_and_json(shown: Print, filled: str) -> None:
    printed = shown("status", "--sagas", code=1)
    assert "not healthy" in printed
    assert "payment: 8 of 8 tasks have no owner" in printed
    assert "in flight" in printed
    assert "TerminalError: the gateway does not know us" in " ".join(printed.split())
    assert "  healthy" in shown("status", "--allow-stopped", "--max-parked", "9", "--max-behind", "1e9")
    assert run(["status", "--watch", "--json", "--log", filled]) == 2


def test_json_for_scripts(filled: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["status", "--json", "--sagas", "--log", filled]) == 1
    found = json.loads(capsys.readouterr().out)
    assert found["healthy"] is False
    assert {task["service"] for task in found["tasks"]} == {"order", "stock", "payment", "dispatch"}
    assert {each["state"] for each in found["sagas"]} >= {"completed", "cancelled"}
    assert {each["key"] for each in found["parked"]} == {"broken", "garbled"}


async def test_on_kafka(tmp_path: Path, kafka_url: str) -> None:
    config = RuntimeConfig(state_dir=str(tmp_path))
    async with open_log(kafka_url, with_sagas({"bad"})) as log:
        reader = StatusReader(log, with_sagas=True)
        assert {task.owner for task in (await reader.read()).tasks} == {None}
        async with Runtime(log, ports={"gateway": Outside()}, config=config) as runtime, asyncio.timeout(120):
            for order_id in ("bad", "1"):
                await log.publish(Ordered(order_id=order_id, cents=1))
            await runtime.idle()
            status = await reader.read()
            assert None not in {task.owner for task in status.tasks}
            assert [parking.key for parking in status.parked] == ["bad"]
            assert [(each.state, each.count) for each in status.sagas or ()] == [("charged", 1)]
        assert complaints(await reader.read(), Limits(parked=1)) == ["orders: 8 of 8 tasks have no owner"]
