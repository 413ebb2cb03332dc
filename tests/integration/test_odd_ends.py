"""Whatever the application's functions end with: an attempt that failed, a parked input or a failure that is named."""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass

import pytest

from eventlib import Choreography, Decider, Event, EventLog, Runtime, RuntimeConfig, Service, open_log
from eventlib.errors import ContractError, UnforeseenEnd
from eventlib.model.topic import PARTITIONERS, Topic
from eventlib.replay import replay
from eventlib.runtime.records import EFFECT, PARKED, ParkedKey
from eventlib.runtime.runner import TaskRunner
from eventlib.state.memory import MemoryStores
from tests.apps.errands import Asked, Got, Odd, Thing, choreography
from tests.apps.small_shop import ChargeAsked, Charged, Ordered, Outside, make_shop, settle
from tests.handling import handle_all
from tests.integration.reopening import events, everything

PATIENCE_S = 60.0
HALF = "\ud800"


class Panic(BaseException):
    """As a native library's: not an Exception."""


class Mute(Exception):
    def __str__(self) -> str:
        raise RuntimeError("it does not say")


ENDS: dict[str, Callable[[], BaseException]] = {
    "cancelled": asyncio.CancelledError,
    "panic": lambda: Panic("called `Option::unwrap()` on a `None` value"),
    "group": lambda: BaseExceptionGroup("several", [Panic("one"), ValueError("two")]),
    "closed": GeneratorExit,
    "exit": lambda: SystemExit(1),
    "mute": Mute,
}


@dataclass
class OddOutside(Outside):
    """A gateway that ends oddly at its first calls for order 1."""

    end: Callable[[], BaseException] = Panic
    odd: int = 1

    async def charge(self, key: str, order_id: str) -> str:
        if order_id == "1" and self.odd > 0:
            self.odd -= 1
            self.calls.append(order_id)
            raise self.end()
        return await super().charge(key, order_id)


@pytest.mark.parametrize("end", ENDS.values(), ids=ENDS)
async def test_an_attempt_that_ends_oddly_has_failed(end: Callable[[], BaseException]) -> None:
    async with open_log("memory://", make_shop(set())) as log:
        for odd, last in ((1, "Charged"), (99, "Uncharged")):
            outside = OddOutside(end=end, odd=odd)
            await log.publish(Ordered(order_id="1", cents=odd))
            await settle(log, outside)
            assert [each.type for each in await everything(log, "charges")][-1] == last
            assert outside.calls == ["1"] * min(odd + 1, 3)


async def test_an_effect_that_cancels_its_own_task_has_failed_and_its_timeouts_work_on() -> None:
    class Suicidal(Outside):
        async def charge(self, key: str, order_id: str) -> str:
            self.calls.append(order_id)
            if len(self.calls) == 1:
                task = asyncio.current_task()
                assert task is not None
                task.cancel()
                await asyncio.sleep(0)
            return key

    async with open_log("memory://", make_shop(set())) as log:
        await log.publish(Ordered(order_id="1", cents=5))
        outside = Suicidal()
        await settle(log, outside)
        assert outside.calls == ["1"] * 2
        assert [type(each) for each in await events(log, "charges")] == [ChargeAsked, Charged]


async def run(log: EventLog, stores: MemoryStores) -> None:
    await handle_all(log, stores=stores)
    report = await replay(log)
    assert report.same, report.first or report.unknown


async def notes(log: EventLog, prefix: str) -> list[str]:
    """Return why what waits in the changelog does, by its newest records."""
    newest = {record.key: record for record in await everything(log, "things.changelog")}
    kept = [each for key, each in newest.items() if (key or b"").startswith(prefix.encode()) and each.value is not None]
    if prefix == PARKED:
        return [log.codec.decode(ParkedKey, each.value or b"").reason for each in kept]
    return [dict(each.headers).get("parked_reason", b"").decode() for each in kept]


def raising(end: Callable[[], BaseException]) -> Callable[[], None]:
    def raises() -> None:
        raise end()

    return raises


@pytest.mark.parametrize("where", ["evolve", "handle", "due"])
@pytest.mark.parametrize("end", ENDS.values(), ids=ENDS)
async def test_a_pure_function_that_ends_oddly_parks_its_input_and_others_go_on(
    where: str, end: Callable[[], BaseException]
) -> None:
    odd = Odd()
    setattr(odd, where, raising(end))
    async with open_log("memory://", choreography(odd)) as log:
        await log.publish_many([Asked(name="odd"), Asked(name="fine")])
        await run(log, MemoryStores())
        (reason,) = await notes(log, PARKED)
        assert type(end()).__name__ in reason
        assert [each.name for each in await events(log, "got") if isinstance(each, Got)] == ["fine"]


ANSWERS: dict[str, tuple[Callable[[], Event], str]] = {
    "surrogate": (lambda: Got(name=HALF), "Got.name"),
    "no key": (Got.model_construct, "Got.name"),
    "None": (lambda: None, "None"),  # type: ignore[dict-item, return-value]  # effects lie
}


@pytest.mark.parametrize(("answer", "named"), ANSWERS.values(), ids=ANSWERS)
@pytest.mark.parametrize("where", ["answer", "otherwise"])
async def test_an_answer_that_cannot_be_written_parks_its_effect(
    where: str, answer: Callable[[], Event], named: str
) -> None:
    odd, stores = Odd(), MemoryStores()
    setattr(odd, where, answer)
    async with open_log("memory://", choreography(odd)) as log:
        await log.publish_many([Asked(name="odd"), Asked(name="fine")])
        for _ in range(2):  # and again at a restart
            await run(log, stores)
            (reason,) = await notes(log, EFFECT)
            assert named in reason
            assert [each.name for each in await events(log, "got") if isinstance(each, Got)] == ["fine"]


@pytest.mark.parametrize("end", [ValueError, Panic, None], ids=["raises", "panics", "returns nothing"])
async def test_what_a_partitioner_refuses_is_parked_or_refused(
    end: type[BaseException] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def partition(key: bytes, partitions: int) -> int:
        if key == b"odd":
            if end is not None:
                raise end("not this one")
            return None  # type: ignore[return-value]  # it lies
        return sum(key) % partitions

    monkeypatch.setitem(PARTITIONERS, "odd", partition)

    class Called(Event, topic=Topic("called", partitioner="odd"), key="name", request=True):
        name: str

    class Answered(Event, topic=Topic("answered", partitioner="odd"), key="name"):
        name: str

    calls: Decider[Thing] = Decider("call", state=Thing, key="name")

    @calls.on
    def call(_thing: Thing, called: Called) -> list[Answered]:
        return [Answered(name="odd" if called.name == "leads to it" else called.name)]

    calls.follows(Answered)
    async with open_log("memory://", Choreography("calls", [Service("things", deciders=[calls])])) as log:
        with pytest.raises(ContractError, match="topic called takes no key b'odd'"):
            await log.publish(Called(name="odd"))
        await log.publish_many([Called(name="leads to it"), Called(name="fine")])
        await handle_all(log)
        (reason,) = await notes(log, PARKED)
        assert "topic answered takes no key b'odd'" in reason
        assert [each.name for each in await events(log, "answered") if isinstance(each, Answered)] == ["fine"]


async def test_a_key_that_cannot_be_written_is_refused_at_publish() -> None:
    async with open_log("memory://", choreography(Odd())) as log:
        with pytest.raises(ContractError, match=r"Asked\.name is the event's key and cannot be written.*UTF-8"):
            await log.publish(Asked(name=HALF))
        with pytest.raises(ContractError, match=r"has no name: construct it with all its fields"):
            await log.publish(Asked.model_construct())
        assert not await everything(log, "asked")


async def test_an_effect_that_ignores_its_cancellation_is_named_and_left_behind(
    caplog: pytest.LogCaptureFixture,
) -> None:
    freed = asyncio.Event()

    class Stubborn(Outside):
        async def charge(self, key: str, order_id: str) -> str:
            self.calls.append(order_id)
            while not freed.is_set():
                try:
                    await freed.wait()
                except asyncio.CancelledError:
                    continue
            return key

    async with open_log("memory://", make_shop(set())) as log:
        await log.publish(Ordered(order_id="1", cents=5))
        outside = Stubborn()
        config = RuntimeConfig(grace_s=0)
        with caplog.at_level(logging.ERROR, "eventlib.runtime.effects"):
            async with asyncio.timeout(PATIENCE_S):
                async with Runtime(log, ports={"gateway": outside}, config=config):
                    while not outside.calls:
                        await asyncio.sleep(0.01)
        assert "effect for ChargeAsked" in caplog.text
        assert "did not end" in caplog.text
        freed.set()
        for task in asyncio.all_tasks() - {asyncio.current_task()}:  # it is not among them: nothing waits for it
            assert not task.get_name().startswith("effect for")
        await settle(log)
        assert [type(each) for each in await events(log, "charges")] == [ChargeAsked, Charged]


@pytest.mark.parametrize("end", [asyncio.CancelledError, Panic])
async def test_a_task_that_ends_oddly_fails_the_runtime(
    end: type[BaseException], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def ends(_runner: TaskRunner) -> None:
        raise end

    monkeypatch.setattr(TaskRunner, "run", ends)
    async with open_log("memory://", make_shop(set())) as log, asyncio.timeout(PATIENCE_S):
        runtime = Runtime(log, ports={"gateway": Outside()})
        with pytest.raises(UnforeseenEnd, match=end.__name__):
            async with runtime:
                await runtime.failed()
