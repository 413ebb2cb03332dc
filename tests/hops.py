"""Counts the files that data passes through: `python -m tests.hops`.

A file counts when one of its functions is called with the data, or returns it, while one real input makes its way: a
record, an event, a state, or a list of these. A compiled core calls without a trace. What a service's
own code calls is the service's affair, and the accessors of records and events stand in the files of their classes:
neither is a hop.
"""

import asyncio
import sys
import tempfile
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import CodeType, FrameType

import eventlib
from eventlib import Event, Runtime, open_log
from eventlib.model import event, record
from eventlib.model.record import Record
from services import shop
from tests.apps.lessons import APP, ExamMarked, Pupil
from tests.integration.api_shop import api, open_shop, wanted

ROOT = Path(eventlib.__file__).parents[1]
PACKAGES = tuple(f"{ROOT}/{name}/" for name in ("eventlib", "services"))
HOMES = {record.__file__, event.__file__}
PURE = {sys.modules[name].__file__ for app in (APP, shop) for decider in app.deciders for name in decider.modules}
"""What the services' own functions stand in."""
SETTLE_S = 0.3


@contextmanager
def passed(*data: type) -> Iterator[set[str]]:
    """Collect, as long as it lasts, the files through which data of these types goes."""
    files = set[str]()

    def watch(frame: FrameType, what: str, result: object) -> None:
        code = frame.f_code
        if what not in {"call", "return"} or not code.co_filename.startswith(PACKAGES) or code.co_filename in HOMES:
            return
        values = _arguments(frame, code) if what == "call" else [result]
        if any(_has(value, data) for value in values) and not _is_called_by_a_service(frame):
            files.add(str(Path(code.co_filename).relative_to(ROOT)))

    sys.setprofile(watch)
    try:
        yield files
    finally:
        sys.setprofile(None)


def _arguments(frame: FrameType, code: CodeType) -> list[object]:
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    return [frame.f_locals.get(name) for name in names if name != "self"]


def _has(value: object, data: tuple[type, ...], depth: int = 1) -> bool:
    if isinstance(value, data):
        return True
    if isinstance(value, list | tuple) and depth:
        return any(_has(each, data, depth - 1) for each in value)
    return isinstance(value, dict) and bool(depth) and any(_has(each, data, depth - 1) for each in value.values())


def _is_called_by_a_service(frame: FrameType) -> bool:
    return frame.f_back is not None and frame.f_back.f_code.co_filename in PURE


async def from_record_to_commit() -> set[str]:
    """Return the files from a record on an SQLite log to the commit of what its decider emits."""
    with tempfile.TemporaryDirectory() as directory:
        async with open_log(f"sqlite:///{directory}/log.db", APP) as log, Runtime(log) as runtime:

            async def mark() -> None:
                await log.publish(ExamMarked(pupil="p", school="s", points=60))

            await mark()
            await _settled(runtime)
            await mark()
            with passed(Record, Event, Pupil) as files:
                await _settled(runtime)
    return files


async def from_post_to_completed() -> set[str]:
    """Return the files from `POST /orders` to the answer that the order is completed."""
    states = {decider.state for decider in shop.deciders}
    with tempfile.TemporaryDirectory() as directory:
        async with open_shop(Path(directory)) as opened, api(opened) as client:

            async def order() -> None:
                answer = await client.post("/orders", json=wanted(), headers={"Prefer": "wait=30"})
                assert answer.json()["status"] == "completed", answer.json()

            await order()
            assert opened.runtime is not None
            await _settled(opened.runtime)
            with passed(Record, Event, *states) as files:
                await order()
    return files


async def _settled(runtime: Runtime) -> None:
    await runtime.idle()
    await asyncio.sleep(SETTLE_S)


WAYS: dict[str, Callable[[], Awaitable[set[str]]]] = {
    "record → decider → commit": from_record_to_commit,
    "POST /orders → completed": from_post_to_completed,
}


async def main() -> None:
    """Print each way with its files."""
    for name, way in WAYS.items():
        files = sorted(await way())
        print(f"{name}: {len(files)} files", *files, sep="\n  ")


if __name__ == "__main__":
    asyncio.run(main())
