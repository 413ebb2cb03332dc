"""Whatever a handler fails on in a log becomes a test of a few events, which fails on the bug and passes without it."""

import asyncio
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import fields, replace
from enum import Enum
from typing import Any

import pytest

from eventlib import Event, EventLog, open_log
from eventlib.errors import UnknownKey
from eventlib.model.decider import Decider
from eventlib.model.handler import FOLLOWS
from eventlib.model.record import key_text
from eventlib.proof.cases import Case, cases_of, failing_case, how_it_fails
from eventlib.proof.shrinking import shrunk
from eventlib.proof.writing import as_test
from eventlib.replay.key_history import KeyHistory, key_history
from eventlib.testing import given
from services import shop
from tests import forked
from tests.integration.reopening import everything
from tests.saga.shop_runs import ROOT

MOST_EVENTS = 6
Shape = tuple[str, str, tuple[object, ...]]
"""A decider, the type of an event, and what its state is like: its stages, and which of its texts and parts are empty."""


def shape_of(decider: Decider[Any], event: Event, state: Any) -> Shape:
    parts = (getattr(state, each.name) for each in fields(state))
    values = tuple(part if isinstance(part, Enum | bool) else bool(part) for part in parts if type(part) is not int)
    return decider.name, type(event).__name__, values


@contextmanager
def planted(decider: Decider[Any], shape: Shape) -> Iterator[None]:
    """Let the handler of an event raise when the state has a shape."""
    event_type = next(each for each in decider.handlers if each.__name__ == shape[1])
    whole = decider.handlers[event_type]

    def broken(state: Any, event: Any, *meta: Any) -> Any:
        if shape_of(decider, event, state) == shape:
            raise KeyError(shape)
        return [] if whole is FOLLOWS else whole.call(state, event, *meta)

    handlers: Any = decider.handlers
    handlers[event_type] = replace(decider.evolving if whole is FOLLOWS else whole, call=broken)
    try:
        yield
    finally:
        handlers[event_type] = whole


async def histories(log: EventLog, *names: str) -> list[KeyHistory]:
    """Return the history of every key of some deciders, of every one unless they are named, as of those of the shop."""
    found = list[KeyHistory]()
    keys = {
        key_text(record) for topic in await log.port.topics() for record in await everything(log, topic) if record.key
    }
    for decider in map(shop.decider, names) if names else shop.deciders:
        for key in sorted(keys):
            with suppress(UnknownKey):
                history = await key_history(log, log.choreography.decider(decider.name), key)
                found.append(replace(history, decider=decider))
    return found


async def histories_on(url: str) -> list[KeyHistory]:
    async with open_log(url, shop, read_only=True) as log:
        return await histories(log)


@pytest.fixture(scope="module")
def bugs(tmp_path_factory: pytest.TempPathFactory) -> Mapping[Shape, KeyHistory]:
    """One bug for each way in which a handler was called, with a history that has it."""
    url = f"sqlite:///{tmp_path_factory.mktemp('shop')}/shop.db"
    command = [sys.executable, "-m", "services", "demo", "--orders", "40", "--seed", "7", "--log", url, "--json"]
    forked.run(command, cwd=ROOT, check=True, capture_output=True, timeout=300)
    found = dict[Shape, KeyHistory]()
    for history in asyncio.run(histories_on(url)):
        for _, case in cases_of(history):
            if isinstance(case.input, Event):
                found.setdefault(shape_of(history.decider, case.input, state_of(case, case.input)), history)
    return found


def state_of(case: Case, arrives: Event) -> Any:
    """Return the state that a handler is called with."""
    return given(case.decider, *case.history, arrives, at=case.at).state


@pytest.mark.extended
def test_each_planted_bug_becomes_a_test_of_few_events(bugs: Mapping[Shape, KeyHistory]) -> None:
    assert len(bugs) >= 25
    for shape, history in bugs.items():
        with planted(history.decider, shape):
            case, _, _ = failing_case(history)
            small = shrunk(case, how_it_fails)
            assert len(small.events) <= min(MOST_EVENTS, len(case.events)), shape
            text = as_test(small, "A title.", "A reason.")
            assert "KeyError" in run(text), shape
        assert run(text) == "", shape


def run(text: str) -> str:
    """Run the test of a file, and return what it fails with."""
    names: dict[str, Any] = {}
    exec(compile(text, "a test", "exec"), names)  # noqa: S102  our own text
    (test,) = (each for name, each in names.items() if name.startswith("test_"))
    try:
        test()
    except Exception as error:  # noqa: BLE001  that is what is asked
        return f"{type(error).__name__}: {error}"
    return ""
