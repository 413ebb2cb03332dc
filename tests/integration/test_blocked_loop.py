"""What blocks a process is named in its log: function, key and seconds."""

import asyncio
import logging
import time

import pytest

from eventlib import Runtime, RuntimeConfig, open_log
from eventlib.runtime.loop_watch import LoopWatch
from tests.apps.errands import Asked, Got, Odd, choreography

PATIENCE_S = 60.0
BLOCKED_S = 0.05


@pytest.mark.parametrize(("where", "name"), [("handle", "thing.ask"), ("answer", "effect thing.get")])
async def test_what_blocks_the_process_is_named_with_its_key_and_seconds(
    where: str, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    def block() -> Got:
        """Block until the log says so."""
        deadline = time.monotonic() + PATIENCE_S
        while "blocks this process" not in caplog.text:
            assert time.monotonic() < deadline, "nothing is said of it"
            time.sleep(BLOCKED_S / 10)
        return Got(name="odd")

    odd = Odd()
    setattr(odd, where, block)
    async with open_log("memory://", choreography(odd)) as log:
        await log.publish(Asked(name="odd"))
        async with Runtime(log, config=RuntimeConfig(blocked_s=BLOCKED_S)) as runtime, asyncio.timeout(PATIENCE_S):
            await runtime.idle()
            while "has blocked this process for" not in caplog.text:
                await asyncio.sleep(0.01)
    said = [each.getMessage() for each in caplog.records if each.name == "eventlib.runtime.loop_watch"]
    assert said[0].startswith(f"{name}, in block (")
    assert "for key 'odd' blocks this process, for 0." in said[0]
    assert said[1].startswith(f"{name}, in block (")
    assert "for key 'odd' has blocked this process for 0." in said[1]


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
