"""A circuit breaker: when calls stop, who may try, and what counts for nothing."""

import asyncio
import logging

import pytest

from eventlib.runtime.breaker import NEVER_OPEN, Breaker, BreakerConfig, BreakerState

AWAY = "OutcomeUnknown: nobody there"
PAUSE_S = 0.02


def breaker(failures: int = 3) -> Breaker:
    return Breaker("gateway", BreakerConfig(failures, PAUSE_S, 4 * PAUSE_S))


def state(it: Breaker) -> BreakerState:
    return it.state


def fail(it: Breaker, times: int) -> None:
    for _ in range(times):
        turn = it.begin()
        assert turn is not None
        it.failed(turn, AWAY)


async def test_it_opens_after_failures_in_a_row_only() -> None:
    it = breaker()
    for _ in range(5):
        fail(it, 2)
        turn = it.begin()
        assert turn is not None
        it.worked(turn)
    assert state(it) is BreakerState.CLOSED
    fail(it, 3)
    assert state(it) is BreakerState.OPEN
    assert it.begin() is None


async def test_after_a_pause_one_call_tries_for_all() -> None:
    it = breaker()
    fail(it, 3)
    await asyncio.wait_for(it.wait(), 60)
    assert state(it) is BreakerState.HALF_OPEN
    trying = it.begin()
    assert trying is not None
    assert it.begin() is None, "only one tries"
    it.worked(trying)
    assert state(it) is BreakerState.CLOSED
    assert it.begin() is not None


async def test_each_pause_in_vain_is_longer_up_to_the_longest(caplog: pytest.LogCaptureFixture) -> None:
    it = breaker()
    with caplog.at_level(logging.WARNING):
        fail(it, 3)
        for _ in range(4):
            await asyncio.wait_for(it.wait(), 60)
            fail(it, 1)
    pauses = [record.getMessage().rpartition("wait ")[2] for record in caplog.records]
    assert pauses == [f"{PAUSE_S * factor} s" for factor in (1, 2, 4, 4, 4)]
    assert "port gateway failed 3 times in a row (OutcomeUnknown: nobody there)" in caplog.text


async def test_a_call_that_began_before_it_opened_counts_for_nothing() -> None:
    it = breaker()
    early = [it.begin() for _ in range(3)]
    fail(it, 3)
    for turn in early[:2]:
        assert turn is not None
        it.worked(turn)
    assert state(it) is BreakerState.OPEN
    await asyncio.wait_for(it.wait(), 60)
    assert early[2] is not None
    it.failed(early[2], AWAY)
    assert state(it) is BreakerState.HALF_OPEN


async def test_when_the_one_who_tries_gives_up_another_one_may() -> None:
    it = breaker()
    fail(it, 3)
    await asyncio.wait_for(it.wait(), 60)
    first = it.begin()
    assert first is not None
    it.abandoned(first)
    assert state(it) is BreakerState.HALF_OPEN
    assert it.begin() is not None


async def test_without_a_limit_it_never_opens() -> None:
    fail(NEVER_OPEN, 1_000)
    assert state(NEVER_OPEN) is BreakerState.CLOSED
