"""What blocks a process is named in its log: function, key and seconds."""

import asyncio
import logging
import re
import time

import pytest

from eventlib import Runtime, RuntimeConfig, open_log
from eventlib.runtime.loop_watch import LoopWatch
from tests.apps.errands import Asked, Got, Odd, Thing, choreography

PATIENCE_S = 60.0
BLOCKED_S = 0.05


@pytest.mark.parametrize(("where", "name"), [("handle", "thing.ask"), ("answer", "effect thing.get")])
async def test_what_blocks_the_process_is_named_with_its_key_and_seconds(
    where: str, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    def said() -> list[str]:
        """What the log says of it; a busy machine may block the process, too, and that is said besides."""
        messages = [each.getMessage() for each in caplog.records if each.name == "eventlib.runtime.loop_watch"]
        return [each for each in messages if each.startswith(f"{name}, in block (")]

    def block() -> Got:
        """Block until the log says so."""
        deadline = time.monotonic() + PATIENCE_S
        while not said():
            assert time.monotonic() < deadline, "nothing is said of it"
            time.sleep(BLOCKED_S / 10)
        return Got(name="odd")

    odd = Odd()
    setattr(odd, where, block)
    async with open_log("memory://", choreography(odd)) as log:
        await log.publish(Asked(name="odd"))
        async with Runtime(log, config=RuntimeConfig(blocked_s=BLOCKED_S)) as runtime, asyncio.timeout(PATIENCE_S):
            await runtime.idle()
            while len(said()) < 2:
                await asyncio.sleep(0.01)
    while_it_lasts, afterwards = said()
    assert re.search(r"for key 'odd' blocks this process, for \d+\.", while_it_lasts)
    assert re.search(r"for key 'odd' has blocked this process for \d+\.", afterwards)


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


async def test_a_handler_that_blocks_behind_something_else_is_named_too(caplog: pytest.LogCaptureFixture) -> None:
    odd = Odd()
    app = choreography(odd)
    (ask,) = (each for each in app.deciders[0].functions if each.__name__ == "ask")
    watch, now = LoopWatch(app.services, 3_600), time.monotonic()

    def look_twice(seconds: int = 7_202) -> None:
        watch.look(now + seconds)
        watch.look(now + seconds + 1)

    odd.handle = look_twice
    try:
        with caplog.at_level(logging.WARNING, "eventlib.runtime.loop_watch"):
            look_twice(7_200)
            ask(Thing(), Asked(name="odd"))
    finally:
        watch.stop()
    outside, handler = caplog.messages
    assert outside.startswith("look (")
    assert handler.startswith("thing.ask, in look (")
