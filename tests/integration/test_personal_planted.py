"""200 planted people in services that run, park, retry, trace, back up and archive; half of them are forgotten meanwhile.

Then every byte of every file is searched for what all the planted texts have in common.
"""

import asyncio
import base64
import gzip
import json
import os
import signal
import sys
import zlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from secrets import token_hex

import pytest

from analytics.cli import run as analytics
from eventlib import open_log
from eventlib.devtools.kafka import Cluster
from eventlib.operations.erasure import forget, receipts
from eventlib.personal import ERASED
from examples.letters import LetterPosted, LetterReturned
from tests.commands import ended, said
from tests.integration.letters_app import app
from tests.integration.otlp import Receiver, receiving
from tests.integration.planted_people import STEMS, files_in, found_in, key_store, leaks, letter

PEOPLE = 200
APP = ["--app", "tests.integration.letters_app:app"]


def nothing_leaks(*directories: Path) -> None:
    files = files_in(*directories)
    assert len(files) > 10
    assert any(path.suffix in {".parquet", ".log"} for path in files)
    assert leaks(*directories) == []


@pytest.mark.parametrize("shift", range(3))
def test_the_search_finds_what_is_planted(tmp_path: Path, shift: int) -> None:
    for name, text in zip(("name", "street", "city", "email", "phone"), STEMS, strict=True):
        planted = getattr(letter(7), name)
        assert text in planted
        for form in (
            planted.encode(),
            planted.encode("utf-16-le"),
            planted.encode("utf-16-be"),
            base64.b64encode(b"z" * shift + planted.encode() + b"z"),
        ):
            assert found_in("", form)
    for compress in (zlib.compress, gzip.compress):
        (tmp_path / "page").write_bytes(b"head" + compress(letter(7).name.encode() * 9) + b"tail")
        assert leaks(tmp_path)


@asynccontextmanager
async def services(url: str, directory: Path, receiver: Receiver) -> AsyncIterator[None]:
    """Run the services in a process of their own that logs and traces all it can."""
    environment = {
        **os.environ,
        "EVENTLIB_LOG_LEVEL": "DEBUG",
        "EVENTLIB_LOG_FORMAT": "json",
        "EVENTLIB_STATE_DIR": str(directory / "state"),
        "OTEL_TRACES_EXPORTER": "otlp",
        "OTEL_EXPORTER_OTLP_ENDPOINT": receiver.url,
        "PYTHONPATH": os.pathsep.join(sys.path),
    }
    with (directory / "services.log").open("ab") as written:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "eventlib", "run", *APP, "--log", url),
            env=environment,
            stdout=written,
            stderr=written,
        )
        try:
            yield
        finally:
            process.send_signal(signal.SIGTERM)
            assert await asyncio.wait_for(process.wait(), 60) in {0, 130, 143, -signal.SIGTERM}


async def until_all_have_ended(url: str) -> None:
    standard = sum(letter(number).kind == "standard" for number in range(PEOPLE))
    async with open_log(url, app, read_only=True) as log, asyncio.timeout(300):
        found = set[str]()
        while len(found) < standard:
            await asyncio.sleep(0.2)
            for partition in range(8):
                with suppress(Exception):
                    for record in await log.port.read("letters", partition, 0, 10_000):
                        event = await log.decode_now(record)
                        found |= {event.letter_id} if isinstance(event, LetterPosted | LetterReturned) else set()


async def lived_through(url: str, directory: Path, receiver: Receiver) -> None:
    """Run the services, with everything that writes, and forget every other person while they run."""
    where = ["--log", url, *APP]
    async with open_log(url, app) as log, services(url, directory, receiver):
        for number in range(PEOPLE):
            await log.publish(letter(number))
            if number % 20 == 1:
                await asyncio.to_thread(said, "forget", f"c{number}", "--reason", "asked", "--uncounted", *where)
        await until_all_have_ended(url)
        await asyncio.to_thread(ended, "parked", "retry", "--all", *where)
        await asyncio.to_thread(said, "forget", "c1", "--reason", "asked", "--uncounted", *where)  # again
        with key_store(url) as store:
            for number in range(1, PEOPLE, 2):
                await forget(log.port, store, f"c{number}", "asked", "ada", count=False)
        assert {each.subject for each in await receipts(log.port)} == {f"c{number}" for number in range(1, PEOPLE, 2)}
    report = await asyncio.to_thread(said, "replay", *where)
    assert "Nothing differs" in report
    shown = [
        await asyncio.to_thread(said, *each, *where)
        for each in (["tail", "--json"], ["parked", "list"], ["saga", "l5"])
    ]
    (directory / "reports.txt").write_text("\n".join([report, *shown]))
    (directory / "spans.bin").write_bytes(b"\n".join(body for _, body in receiver.bodies))
    assert receiver.bodies


async def names_of(url: str) -> dict[str, str]:
    rows = map(
        json.loads,
        (
            await asyncio.to_thread(said, "tail", "letter.requests", "--personal", "--json", "--log", url, *APP)
        ).splitlines(),
    )
    return {row["data"]["customer_id"]: row["data"]["name"] for row in rows}


@pytest.fixture
def data(tmp_path: Path, master_key: Path, monkeypatch: pytest.MonkeyPatch) -> Path:  # noqa: ARG001  the key has to be there
    monkeypatch.setenv("OTEL_TRACES_SAMPLER_ARG", "1.0")  # here, where the sagas begin
    (tmp_path / "data").mkdir()
    return tmp_path / "data"


EXPECTED = {f"c{n}": ERASED if n % 2 else letter(n).name for n in range(PEOPLE)}


async def test_no_file_has_what_was_planted(data: Path) -> None:
    url = f"sqlite:///{data}/letters.db"
    with receiving(keeps=True) as receiver:
        await lived_through(url, data, receiver)
    await asyncio.to_thread(said, "backup", "--to", f"{data}/backup.db", "--log", url)
    await asyncio.to_thread(said, "archive", "--log", url, "--to", f"{data}/archive", by=analytics)
    assert await names_of(url) == EXPECTED
    nothing_leaks(data)


@pytest.mark.extended
async def test_no_file_has_what_was_planted_on_kafka(
    data: Path, broker: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EVENTLIB_PERSONAL_KEYS", f"sqlite:///{data}/letters.keys")
    prefix = token_hex(4)
    url = f"{broker.url}/?prefix={prefix}."
    with receiving(keeps=True) as receiver:
        await lived_through(url, data, receiver)
    assert await names_of(url) == EXPECTED
    own = [each for each in broker.directory.rglob("*") if each.is_dir() and each.name.startswith((prefix, "__"))]
    assert any("letters" in each.name for each in own)
    nothing_leaks(data, *own)
