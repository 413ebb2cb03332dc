"""A step of a start is tried again as long as its error says that this can help, and says why without repeating itself."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from pathlib import Path

import httpx
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from eventlib.cli._common.late import LateApp
from eventlib.cli._common.stopping import Stopped, unless_stopped
from eventlib.errors import LogDenied, LogUnavailable, RetryableError, TopicMismatch
from eventlib.ground.startup import Backoff, Startup
from eventlib.ground.url import is_host
from eventlib.operations.startup_waits import WaitingNote, waiting_here

QUICK = Backoff(first_s=0.001, longest_s=0.004, slow_s=0.02, quiet_s=60)


class Failing:
    """A step that fails in these ways, one after the other, and then works."""

    def __init__(self, *errors: Exception) -> None:
        self.errors = list(errors)

    async def __call__(self) -> str:
        if self.errors:
            raise self.errors.pop(0)
        return "works"


def startup_of(said: list[str], backoff: Backoff = QUICK) -> Startup:
    return Startup(said.append, backoff)


async def test_a_step_is_tried_until_it_works_and_each_reason_is_said_once() -> None:
    said = list[str]()
    away, busy = LogUnavailable("nothing listens there"), LogUnavailable("it is busy")
    step = Failing(*[away] * 20, *[busy] * 20, *[away] * 20)
    startup = startup_of(said)
    assert await startup.run("the log", step) == "works"
    assert said[:2] == ["Waiting for the log: nothing listens there", "Waiting for the log: it is busy"]
    assert len(said) == 3
    assert said[2].startswith("No longer waiting, after 0.")
    assert startup.lacks == ""


async def test_a_reason_that_lasts_is_said_again_when_it_was_not_for_a_while() -> None:
    said = list[str]()
    startup = startup_of(said, replace(QUICK, quiet_s=0))
    await startup.run("the log", Failing(*[LogUnavailable("away")] * 5))
    assert said.count("Waiting for the log: away") == 5


@pytest.mark.parametrize("error", [LogDenied("no such user"), TopicMismatch("8 partitions, not 4"), ValueError("what")])
async def test_what_waiting_does_not_help_against_ends_the_step_at_once(error: Exception) -> None:
    said = list[str]()
    step = Failing(LogUnavailable("away"), error, LogUnavailable("never tried"))
    with pytest.raises(type(error), match=str(error)):
        await startup_of(said).run("the log", step)
    assert len(step.errors) == 1
    assert said == ["Waiting for the log: away"], "it did not end well, so nothing is said of an end of waiting"


async def test_a_step_without_an_answer_is_said_and_shown() -> None:
    said, goes_on = list[str](), asyncio.Event()
    startup = startup_of(said)
    running = asyncio.create_task(startup.run("the log", goes_on.wait))
    await asyncio.sleep(0)  # it begins, and no timer has run yet, however slow this machine is
    assert startup.lacks == "the log"
    await until(lambda: bool(said))
    assert said == ["Waiting for the log: no answer yet"]
    assert startup.lacks == "the log: no answer yet"
    goes_on.set()
    await running


async def test_many_steps_with_one_reason_say_it_once() -> None:
    said = list[str]()
    startup = startup_of(said)
    for number in range(32):
        startup.failed(f"order/{number}", LogUnavailable("the log is away"))
    assert said == ["Waiting for order/0: the log is away"]
    assert startup.lacks == "order/0: the log is away"
    for number in range(32):
        startup.done(f"order/{number}")
    assert len(said) == 2
    assert startup.lacks == ""


def test_pauses_grow_up_to_a_bound_and_differ() -> None:
    startup = startup_of([], Backoff(first_s=0.2, longest_s=5))
    pauses = [startup.failed("the log", RetryableError("away")) for _ in range(2_000)]
    assert 0.1 <= pauses[0] <= 0.2
    assert all(2.5 <= pause <= 5 for pause in pauses[6:])
    assert len({round(pause, 3) for pause in pauses[6:]}) > 100


async def test_a_stop_leaves_a_step_at_once_and_closes_what_was_opened() -> None:
    closed = list[str]()
    stop = asyncio.get_running_loop().create_future()
    asyncio.get_running_loop().call_later(0.02, stop.set_result, None)

    async def start() -> None:
        async with AsyncExitStack() as stack:
            stack.callback(closed.append, "closed")
            async with unless_stopped(stop):
                startup = startup_of([], Backoff(first_s=60, longest_s=60))
                await startup.run("the log", Failing(LogUnavailable("away")))

    async with asyncio.timeout(120):
        with pytest.raises(Stopped):
            await start()
    assert closed == ["closed"]
    current = asyncio.current_task()
    assert current is not None
    assert current.cancelling() == 0


async def test_a_cancellation_from_elsewhere_is_not_taken_for_a_stop() -> None:
    async def waits() -> None:
        async with unless_stopped(asyncio.get_running_loop().create_future()):
            await asyncio.sleep(60)

    waiting = asyncio.create_task(waits())
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting


async def test_a_stop_that_comes_just_when_all_has_started_interrupts_nothing() -> None:
    """Its callback is on its way already when the block ends: what runs on is stopped by looking at `stop`."""
    stop = asyncio.get_running_loop().create_future()
    async with unless_stopped(stop):
        stop.set_result(None)
    await asyncio.sleep(0)
    await asyncio.wait([stop])


# --- HTTP before its application


async def greeting(request: Request) -> PlainTextResponse:
    return PlainTextResponse(f"good day from {request.state.place}")


async def test_http_answers_before_its_application_can_start() -> None:
    lives = list[str]()
    fails = [LogUnavailable("its file is locked")]

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[dict[str, str]]:
        if fails:
            raise fails.pop()
        lives.append("began")
        yield {"place": "here"}
        lives.append("ended")

    startup = startup_of([])
    late = LateApp(lambda: startup.lacks)
    transport = httpx.ASGITransport(late)
    async with httpx.AsyncClient(transport=transport, base_url="http://late") as client:
        startup.failed("the log", LogUnavailable("no broker"))
        assert (await client.get("/healthz")).status_code == 200
        for path in ("/readyz", "/orders/1"):
            answer = await client.get(path)
            assert answer.status_code == 503
            assert answer.headers["retry-after"] == "1"
            assert answer.json()["detail"] == "this process is starting, and waits for the log: no broker"
        elsewhere = httpx.AsyncClient(
            transport=httpx.ASGITransport(late, client=("10.0.0.1", 1)), base_url="http://late"
        )
        passed_on = await client.get("/readyz", headers={"X-Forwarded-For": "10.0.0.1"})
        for answer in (await elsewhere.get("/readyz"), passed_on):
            assert answer.json()["detail"] == "this process is starting"
        app = Starlette(routes=[Route("/", greeting)], lifespan=lifespan)
        async with AsyncExitStack() as stack:
            await startup.enter(stack, "its index", lambda: late.opened(app))
            assert (await client.get("/")).text == "good day from here"
            assert (await client.get("/readyz")).status_code == 404, "the application answers for itself now"
    assert lives == ["began", "ended"]


async def test_an_application_that_cannot_start_says_why_and_one_without_a_lifespan_starts() -> None:
    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        await Failing(LogDenied("no such user"))()
        yield

    with pytest.raises(LogDenied, match="no such user"):
        async with LateApp(str).opened(Starlette(lifespan=lifespan)):
            pass

    async def plain(scope: object, *_: object) -> None:
        raise AssertionError(scope)

    async with LateApp(str).opened(plain):
        pass


# --- what `eventlib status` shows


def test_a_note_is_seen_as_long_as_its_process_waits(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/log.db"
    note = WaitingNote(url, "unused", "order, stock")
    assert waiting_here(url, "unused") == []
    note("the log: away")
    note("the log: busy")
    (waiting,) = waiting_here(url, "unused")
    assert waiting.reason == "the log: busy"
    assert waiting.sentence.startswith("order, stock (")
    (tmp_path / "log.db.state" / ".waiting" / "cut.json").write_text('{"owner": "cut')
    (found,) = (tmp_path / "log.db.state" / ".waiting").glob("process-*")
    dead = found.with_name("process-dead.json")
    dead.write_text(found.read_text())
    note.close()
    assert waiting_here(url, "unused") == [], "its owner is dead, and the other is none"


def test_a_note_that_cannot_be_written_stops_nothing(tmp_path: Path) -> None:
    (tmp_path / "log.db.state").write_text("a file where a directory should be")
    note = WaitingNote(f"sqlite:///{tmp_path}/log.db", "unused", "order")
    note("the log: away")
    note.close()
    assert waiting_here(f"sqlite:///{tmp_path}/log.db", "unused") == []


# --- names that can be none


@pytest.mark.parametrize(
    "name", ["localhost", "kafka-1", "my_registry", "a.b.example.", "10.0.0.1", "::1", "[::1]", "bücher.example"]
)
def test_what_may_be_a_host(name: str) -> None:
    assert is_host(name)


@pytest.mark.parametrize("name", ["", "ho st", "a..b", "-a", "x" * 64, "a." * 130, "[::zz]", "ka$ka"])
def test_what_can_be_no_host(name: str) -> None:
    assert not is_host(name)


async def until(condition: object) -> None:
    assert callable(condition)
    async with asyncio.timeout(120):
        while not condition():
            await asyncio.sleep(0.002)
