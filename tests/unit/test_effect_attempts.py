"""Which errors of an effect are retried, for how long, and which park it: by the attempts alone, without a clock or a log."""

import json
import os
from collections.abc import Callable

import httpx
import pytest

from eventlib import FOREVER, OutcomeUnknown, Retry, TerminalError
from eventlib.errors import is_final
from eventlib.model.record import Record
from eventlib.runtime.effect_attempts import EffectAttempts, Pause
from eventlib.runtime.transaction import Answer
from tests.apps.smallest import Asked, Granted, orders

URL = "http://bank/charges"


def unknown(asked: Asked) -> Granted:
    return Granted(order_id=asked.order_id)


def attempts(**options: object) -> EffectAttempts:
    """Return the attempts of an effect that is declared with these options."""
    decider = orders()

    @decider.effect(Asked, **options)  # type: ignore[arg-type]  # each test's own
    async def ask(asked: Asked) -> Asked:
        return asked

    request = Record(topic="asked", partition=0, offset=0, timestamp_ms=0, key=b"1", value=b"", id="id")
    return EffectAttempts(decider.effects[Asked], request, Asked(order_id="1"))


def answered(status: int) -> httpx.HTTPStatusError:
    """Return what `raise_for_status` raises for a status."""
    answer = httpx.Response(status, request=httpx.Request("POST", URL))
    with pytest.raises(httpx.HTTPStatusError) as raised:
        answer.raise_for_status()
    return raised.value


@pytest.mark.parametrize("status", [301, 400, 401, 403, 404, 405, 410, 422, 451])
def test_a_final_answer_parks_the_effect_at_once_and_says_why(status: int) -> None:
    follows = attempts(otherwise=unknown).failed(answered(status))
    assert isinstance(follows, Answer)
    assert follows.event is None
    assert follows.reason.startswith("the server's answer is final")
    assert f"'{status} " in follows.reason


@pytest.mark.parametrize("status", [408, 409, 425, 429, 500, 502, 503, 504])
def test_an_answer_that_leaves_the_outcome_open_is_retried(status: int) -> None:
    assert isinstance(attempts().failed(answered(status)), Pause)


@pytest.mark.parametrize(
    "error",
    [
        httpx.ConnectError(""),
        httpx.ReadTimeout(""),
        TimeoutError(),
        OutcomeUnknown(""),
        ValueError(""),
        KeyError("code"),
    ],
)
def test_an_error_without_an_answer_is_retried(error: Exception) -> None:
    assert isinstance(attempts().failed(error), Pause)


def test_an_error_whose_response_fails_is_not_final() -> None:
    class Odd(Exception):
        @property
        def response(self) -> object:
            raise RuntimeError

    assert not is_final(Odd())
    assert is_final(TerminalError())


def waits(made: EffectAttempts, most: int) -> tuple[float, object]:
    """Return how long the pauses of failed attempts are together (seconds), and what ends them; None after `most` attempts."""
    together_s = 0.0
    for _ in range(most):
        follows = made.failed(ConnectionError())
        if not isinstance(follows, Pause):
            return together_s, follows
        together_s += follows.shortest_s
    return together_s, None


def test_without_anything_else_to_emit_an_effect_outlasts_any_outage() -> None:
    together_s, end = waits(attempts(), 200)
    assert (together_s > 3600, end) == (True, None)


def test_with_something_else_to_emit_it_gives_up_after_a_minute() -> None:
    together_s, end = waits(attempts(otherwise=unknown), 200)
    assert together_s == pytest.approx(51.1)
    assert isinstance(end, Answer)
    assert end.event == Granted(order_id="1")


@pytest.mark.parametrize(("retry", "most"), [(Retry(attempts=5), 5), (Retry(attempts=1), 1), (FOREVER, None)])
def test_what_is_declared_counts(retry: Retry, most: int | None) -> None:
    made = attempts(retry=retry)
    ends = [number for number in range(1, 20) if isinstance(made.failed(ConnectionError()), Answer)]
    assert ends[:1] == ([] if most is None else [most])


def raised_by(call: Callable[[], object]) -> Exception:
    with pytest.raises(Exception) as raised:  # noqa: PT011  which one is the test's own
        call()
    return raised.value


FAULTS: list[Callable[[], object]] = [
    lambda: Asked(name="1"),  # type: ignore[call-arg]  # a fault of code
    lambda: dict[str, str]()["code"],
    lambda: None.code,  # type: ignore[attr-defined]  # as above
    lambda: len(1),  # type: ignore[arg-type]  # as above
    lambda: no_such_name,  # type: ignore[name-defined]  # noqa: F821  as above
]


@pytest.mark.parametrize("fault", FAULTS)
def test_code_that_fails_ten_times_in_a_row_parks_its_effect(fault: Callable[[], object]) -> None:
    made = attempts()
    follows = [made.failed(raised_by(fault)) for _ in range(10)]
    assert all(isinstance(each, Pause) for each in follows[:9])
    assert isinstance(follows[9], Answer)
    assert follows[9].reason.startswith("its code has failed 10 times in a row, and no outage explains that: ")


@pytest.mark.parametrize(
    "error",
    [
        lambda: int("x"),
        lambda: json.loads(None),  # type: ignore[arg-type]  # a fault, but of who called it or of the answer: unknown
        lambda: os.environ["NO_SUCH"],
    ],
)
def test_what_another_module_raises_is_retried_as_an_outage(error: Callable[[], object]) -> None:
    made = attempts()
    assert all(isinstance(made.failed(raised_by(error)), Pause) for _ in range(100))


def test_an_outage_between_faults_of_the_code_begins_the_count_anew() -> None:
    made = attempts()
    for _ in range(20):
        assert all(isinstance(made.failed(raised_by(FAULTS[1])), Pause) for _ in range(9))
        assert isinstance(made.failed(ConnectionError()), Pause)


def test_the_fifth_failure_is_for_a_person_to_know() -> None:
    made = attempts()
    warned = []
    for number in range(1, 20):
        made.failed(ConnectionError())
        warned += [number] if made.are_many else []
    assert warned == [5]
