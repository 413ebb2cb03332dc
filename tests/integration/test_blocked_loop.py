"""What blocks a process is named in its log: function, key and seconds."""

import asyncio
import logging
import time
from dataclasses import dataclass

import pytest

from eventlib import Choreography, Decider, Event, Meta, Runtime, RuntimeConfig, Service, open_log
from eventlib.runtime.loop_watch import LoopWatch

PATIENCE_S = 60.0
BLOCKED_S = 0.05


class Asked(Event, topic="asked", key="name", request=True):
    name: str


class Wanted(Event, topic="wanted", key="name"):
    name: str


class Got(Event, topic="got", key="name"):
    name: str


@dataclass(frozen=True)
class State:
    count: int = 0


class Thing:
    """Blocks, in one of its functions, until the log says so."""

    def __init__(self, told: pytest.LogCaptureFixture, where: str) -> None:
        self._told = told
        self._where = where

    def block(self, where: str) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while where == self._where and "blocks this process" not in self._told.text:
            assert time.monotonic() < deadline, "nothing is said of it"
            time.sleep(BLOCKED_S / 10)


def choreography(thing: Thing) -> Choreography:
    things: Decider[State] = Decider("thing", state=State, key="name")

    @things.on
    def ask(_state: State, asked: Asked) -> list[Wanted]:
        thing.block("handler")
        return [Wanted(name=asked.name)]

    things.follows(Got)

    @things.effect(Wanted)
    async def get(wanted: Wanted, sdk: str, meta: Meta) -> Got:
        assert (sdk, meta.subject) == ("any", wanted.name)
        thing.block("effect")
        return Got(name=wanted.name)

    return Choreography("blocked", [Service("things", deciders=[things], effects="all")])


@pytest.mark.parametrize(("where", "name"), [("handler", "thing.ask"), ("effect", "effect thing.get")])
async def test_what_blocks_the_process_is_named_with_its_key_and_seconds(
    where: str, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with open_log("memory://", choreography(Thing(caplog, where))) as log:
        await log.publish(Asked(name="slow"))
        config = RuntimeConfig(blocked_s=BLOCKED_S)
        async with Runtime(log, ports={"sdk": "any"}, config=config) as runtime, asyncio.timeout(PATIENCE_S):
            await runtime.idle()
            while "has blocked this process for" not in caplog.text:
                await asyncio.sleep(0.01)
    said = [each.getMessage() for each in caplog.records if each.name == "eventlib.runtime.loop_watch"]
    assert said[0].startswith(f"{name}, in block (")
    assert "for key 'slow' blocks this process, for 0." in said[0]
    assert said[1].startswith(f"{name}, in block (")
    assert "for key 'slow' has blocked this process for 0." in said[1]


async def test_a_loop_that_answers_is_not_named_and_one_late_look_says_nothing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    watch = LoopWatch([], 3_600)
    try:
        now = time.monotonic()
        with caplog.at_level(logging.WARNING, "eventlib.runtime.loop_watch"):
            for seconds in (0, 7_200, 1, 7_200):  # as after a machine that stood still
                watch.look(now + seconds)
            assert not caplog.text
            watch.look(now + 7_201)
            assert "blocks this process, for 7201" in caplog.text
            watch.look(now + 7_202)
            assert len(caplog.records) == 1, "once"
    finally:
        watch.stop()
