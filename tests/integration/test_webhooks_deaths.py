"""Deliverers are killed at random, and each event still arrives, those of a key in order, however often with one id."""

import asyncio
import random
import signal
import time
from contextlib import ExitStack
from pathlib import Path
from secrets import token_hex

import pytest

from eventlib import open_log
from tests.commands import said
from tests.integration.hooking import KEYS, declared, publish
from tests.integration.test_outbox import kill, started
from tests.integration.webhook_app import APP
from tests.waiting import until
from tests.webhook_receiver import Delivered, Reply, receiving

NAMED = "tests.integration.webhook_app:APP"
LONGEST_S = 120
DEATHS = 8


@pytest.mark.extended
@pytest.mark.usefixtures("hook_secret", "master_key")
@pytest.mark.parametrize("where", ["file", "broker"])
async def test_whatever_dies_each_event_arrives_in_the_order_of_its_key(
    tmp_path: Path, where: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EVENTLIB_PERSONAL_KEYS", f"sqlite:///{tmp_path / 'keys.db'}")
    chosen = random.Random(20261126)
    broker = None if where == "file" else request.getfixturevalue("broker")
    log_url = f"sqlite:///{tmp_path}/log.db" if broker is None else f"{broker.url}/?prefix={token_hex(4)}."

    async def decide(_: Delivered) -> Reply:
        await asyncio.sleep(chosen.choice([0, 0, 0.001, 0.01]))
        return (503 if chosen.random() < 0.05 else 204, {}, b"")

    async with receiving(decide) as receiver:
        path = declared(tmp_path / "hooks.toml", one=f'"{receiver.url}"\nbegin = "start"')
        command = ("eventlib", "webhook", "run", "--subscribers", str(path), "--app", NAMED, "--log", log_url)
        with ExitStack() as stack:
            async with open_log(log_url, APP) as log:
                await publish(log, range(20))
                running = {name: stack.enter_context(started(tmp_path / name, *command)) for name in ("one", "other")}
                stack.callback(kill, running)
                for death in range(DEATHS):
                    await publish(log, range(20 * death + 20, 20 * death + 40))
                    came = len(receiver.came)
                    await until(lambda came=came: len(receiver.came) > came + 20)
                    await asyncio.sleep(chosen.random() / 4)
                    name = chosen.choice([*running])
                    running[name].send_signal(signal.SIGSTOP if death == 3 else signal.SIGKILL)
                    if death == 3:  # woken up when its successor works
                        await asyncio.sleep(5)
                        running[name].send_signal(signal.SIGCONT)
                        continue
                    running[name].wait()
                    running[name] = stack.enter_context(started(tmp_path / name, *command))
            expected, deadline = [*range(20 * DEATHS + 20)], time.monotonic() + LONGEST_S
            while any(receiver.numbers(key) != expected for key in KEYS):
                assert time.monotonic() < deadline, {name: (tmp_path / name).read_text()[-2000:] for name in running}
                await asyncio.sleep(0.1)
            ids = {each.event.get_id() for each in receiver.taken}
            assert len(ids) == len(expected) * len(KEYS)
            assert all(each.id == each.event.get_id() for each in receiver.came)
            options = ("--subscribers", str(path), "--app", NAMED, "--log", log_url)
            await asyncio.to_thread(said, "webhook", "replay", "one", "--from", "latest", "--yes", *options)
            async with open_log(log_url, APP) as log:
                await publish(log, range(len(expected), len(expected) + 1))
            await until(lambda: all(receiver.numbers(key) == [*expected, len(expected)] for key in KEYS))
            for name, each in running.items():
                while "Delivering events" not in (tmp_path / name).read_text():
                    await asyncio.sleep(0.1)
                each.terminate()
                assert await asyncio.to_thread(each.wait, LONGEST_S) == 0
        printed = await asyncio.to_thread(said, "webhook", "status", *options)
        assert "one is 0 offsets behind the log; 0 events parked, 0 retried, 0 waiting behind them." in printed
