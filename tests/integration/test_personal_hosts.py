"""Services on two hosts share the keys of people in PostgreSQL, on Kafka: two processes that have no directory in common."""

import asyncio
import os
import shutil
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from secrets import token_hex

import pytest

from eventlib import open_log
from eventlib.operations.erasure import forget
from eventlib.personal import ERASED
from eventlib.personal.opening import open_store, personal_options
from eventlib.personal.secret_file import create_secret
from examples.letters import LetterPosted, LetterReturned, LetterSubmitted
from tests.commands import said
from tests.integration.letters_app import app
from tests.integration.test_personal_planted import APP, names_of
from tests.postgres import PASSWORD, Postgres

PEOPLE = 120


def letter(number: int) -> LetterSubmitted:
    """Return a letter; each person writes two, which have keys in different partitions."""
    return LetterSubmitted(
        letter_id=f"l{number}", customer_id=f"c{number // 2}", name=f"Ada {number // 2}", street="1 Mews", city="Oxford"
    )


def prepare(directory: Path) -> None:
    directory.mkdir()
    shutil.copy(os.environ["EVENTLIB_PERSONAL_MASTER"].removeprefix("file:"), directory / "master.key")


@asynccontextmanager
async def host(directory: Path, url: str) -> AsyncIterator[asyncio.subprocess.Process]:
    """Run the services in a process with a directory and a copy of the master key of its own."""
    prepare(directory)
    environment = {
        **os.environ,
        "EVENTLIB_PERSONAL_MASTER": f"file:{directory / 'master.key'}",
        "EVENTLIB_STATE_DIR": str(directory / "state"),
        "PYTHONPATH": os.pathsep.join(sys.path),
    }
    with (directory / "written").open("ab") as written:
        command = (sys.executable, "-m", "eventlib", "run", *APP, "--log", url)
        process = await asyncio.create_subprocess_exec(
            *command, cwd=directory, env=environment, stdout=written, stderr=written
        )
    try:
        yield process
    finally:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()


async def ended(url: str) -> set[str]:
    found = set[str]()
    async with open_log(url, app, read_only=True) as log:
        for partition in range(8):
            for record in await log.port.read("letters", partition, 0, 10_000):
                event = await log.decode_now(record)
                found |= {event.letter_id} if isinstance(event, LetterPosted | LetterReturned) else set()
    return found


async def until_ended(url: str, letters: set[str]) -> None:
    async with asyncio.timeout(240):
        while not letters <= await ended(url):
            await asyncio.sleep(0.5)


@pytest.mark.slow
async def test_two_hosts_share_the_keys(
    tmp_path: Path, kafka_url: str, postgres: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    create_secret(tmp_path / "operator" / "master.key")
    schema = f"hosts_{token_hex(4)}"
    postgres.run(f"CREATE SCHEMA {schema}")
    monkeypatch.setenv("PGPASSWORD", PASSWORD)
    monkeypatch.setenv("EVENTLIB_PERSONAL_KEYS", f"{postgres.url}?options=-csearch_path%3D{schema}")
    monkeypatch.setenv("EVENTLIB_PERSONAL_MASTER", f"file:{tmp_path / 'operator' / 'master.key'}")
    async with open_log(kafka_url, app) as log, host(tmp_path / "a", kafka_url) as a, host(tmp_path / "b", kafka_url):
        store = open_store(kafka_url, personal_options(), create=False)
        for number in range(PEOPLE):
            await log.publish(letter(number))
            if number % 4 == 3:
                await forget(log.port, store, f"c{number // 2}", "asked", "ada", count=False)
        await until_ended(kafka_url, {f"l{number}" for number in range(0, PEOPLE, 10)})
        a.send_signal(signal.SIGKILL)
        postgres.kill()
        postgres.start()
        await until_ended(kafka_url, {f"l{number}" for number in range(PEOPLE)})
        store.close()
    assert await names_of(kafka_url) == {f"c{n}": ERASED if n % 2 else f"Ada {n}" for n in range(PEOPLE // 2)}
    assert "Nothing differs" in await asyncio.to_thread(said, "replay", "--log", kafka_url, *APP)
    assert (tmp_path / "a" / "state").is_dir()
