# mypy: disable-error-code="arg-type, list-item"
"""Public functions called as a newcomer might: each takes what is meant, or says what to give."""

import inspect
from collections.abc import Callable
from datetime import datetime
from typing import Any

import pytest

from eventlib import Choreography, GlobalTable, Publication, Retry, Runtime, Service, open_log
from eventlib.config import read_settings
from eventlib.errors import ContractError, EventlibError, WiringError
from eventlib.http import SagaApi
from eventlib.invariants import InvariantChecker, judged_by_events
from eventlib.operations import parkings, waiting_inputs
from eventlib.queries import (
    Projection,
    SagaIndex,
    StateIndex,
    View,
    event_topics,
    in_order,
    saga_of,
    state_of,
    tail,
)
from eventlib.spi import contract_of
from eventlib.testing import given
from eventlib.values import time_of, to_ms
from tests.apps.lessons import APP, ExamMarked, Pupil, pupils

EXAM = ExamMarked(pupil="p", school="s", points=1)
LOG = "give an open log"
Call = Callable[..., Any]


def live_app(*arguments: Any) -> object:
    from eventlib.live import LiveApp

    return LiveApp(*arguments)


WRONG: list[tuple[str, Call, str]] = [
    ("services that are deciders", lambda: Choreography("x", [pupils]), r"services\[0\] is Decider Decider\('pupil'\)"),
    ("services by name", lambda: Choreography("x", "pupil"), "services is str 'pupil': give services"),
    ("facts that are events", lambda: Choreography("x", APP.services, facts=[EXAM]), r"facts\[0\] is ExamMarked"),
    ("invariants that are functions", lambda: Choreography("x", APP.services, invariants=[len]), "write `@invariant"),
    ("deciders that are states", lambda: Service("x", deciders=[Pupil]), r"is the class Pupil: give the decider"),
    ("retries as text", lambda: Retry(attempts="3"), "is str '3': give a number"),
    ("the application before the URL", lambda: open_log(APP, "memory://"), "give the URL first"),
    ("a service for the application", lambda: open_log("memory://", APP.services[0]), r"give the application"),
    ("a runtime on a URL", lambda: Runtime("memory://"), LOG),
    ("a runtime on the application", lambda: Runtime(APP), LOG),
    ("a runtime on a log that was not entered", lambda: Runtime(open_log("memory://", APP)), LOG),
    ("an index on a URL", lambda: StateIndex("memory://", pupils), LOG),
    ("an index on the application", lambda: SagaIndex(APP, pupils), LOG),
    ("a projection on nothing", lambda: Projection(None, View("v", [], "", len)), LOG),
    ("a table on a URL", lambda: GlobalTable("memory://", ExamMarked), LOG),
    ("a state on the application", lambda: state_of(APP, "pupil", "p"), LOG),
    ("topics of the application", lambda: event_topics(APP), LOG),
    ("parked keys of a URL", lambda: parkings("memory://"), LOG),
    ("inputs behind no parked key", lambda: waiting_inputs(None, "p"), LOG),
    ("a tail of the application", lambda: tail(APP, ["tests"]), r"give the log below an event log"),
    ("records that are events", lambda: in_order([EXAM]), "give records of the log"),
    ("a saga of events", lambda: saga_of("p", [EXAM], APP), r"what `await log.decode_many\(records\)` returns"),
    ("the contract of a state", lambda: contract_of(Pupil), "is the class Pupil: give an event's class"),
    ("a test of a service", lambda: given(APP.services[0]), "is Service .*: give the decider"),
    ("a history in a list", lambda: given(pupils, [EXAM]), r"history\[0\] is list .*one after the other"),
    ("an API on a log", lambda: SagaApi(None, ExamMarked, name="x", counted_as="x", has_ended=bool), "give the index"),
    ("invariants of functions", lambda: InvariantChecker([len]), "write `@invariant"),
    ("invariants to judge", lambda: judged_by_events([len]), "write `@invariant"),
    ("a live app of a service", lambda: live_app(APP.services[0], "lessons"), "give the application"),
    ("settings that are an object", lambda: read_settings(Pupil(), {}), "give a class"),
    ("a time without a zone", lambda: to_ms(datetime(2026, 1, 1)), "no time with a time zone"),  # noqa: DTZ001  the mistake
    ("a time that is a number", lambda: time_of(3), "3 is no time"),
]


async def _called(call: Call) -> None:
    result = call()
    if inspect.isawaitable(result):
        await result
    elif inspect.isasyncgen(result):
        await anext(result)
    elif hasattr(result, "__aenter__"):
        await result.__aenter__()


@pytest.mark.parametrize(("call", "sentence"), [each[1:] for each in WRONG], ids=[each[0] for each in WRONG])
async def test_a_wrong_call_says_what_to_give(call: Call, sentence: str) -> None:
    with pytest.raises((WiringError, ContractError), match=sentence):
        await _called(call)


async def test_what_is_meant_is_taken() -> None:
    assert contract_of(EXAM) is contract_of(ExamMarked)
    alone = Choreography("alone", Service("lessons", deciders=pupils), facts=[ExamMarked])
    assert alone.deciders == (pupils,)
    async with open_log("memory://", APP) as log:
        assert len(await log.publish_many([EXAM, Publication(EXAM)])) == 2
        assert len(await log.publish_many(EXAM)) == 1
        found = [records async for records in tail(log.port, "tests")]
        assert sum(map(len, found)) == 3


@pytest.mark.parametrize("wrong", [None, 3, "x", {"pupil": "p"}, ExamMarked, Pupil(), [[]]])
async def test_what_is_no_event_is_not_published(wrong: Any) -> None:
    async with open_log("memory://", APP) as log:
        for call in (log.publish, log.publish_many):
            with pytest.raises(EventlibError, match="event"):
                await call(wrong)
        assert await log.port.end("tests", 0) == 0
