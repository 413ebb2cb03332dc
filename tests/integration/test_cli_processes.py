"""Commands as processes: pipes that close, following what comes, and signals."""

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from eventlib import open_log
from eventlib.cli import run
from services import shop
from services.order.events import ProductListed
from tests import forked
from tests.integration.shop_log import order, served


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-c", "from eventlib.cli import main; main()", *arguments]


def test_a_closed_pipe_is_no_error(filled: str) -> None:
    for arguments in (["tail", "--json"], ["tail"], ["topics"], ["saga", "large", "--all"]):
        with subprocess.Popen(
            command(*arguments, "--log", filled), stdout=subprocess.PIPE, stderr=subprocess.PIPE
        ) as process:
            assert process.stdout is not None
            assert process.stderr is not None
            process.stdout.close()
            assert process.stderr.read() == b""
        assert process.returncode == 0


def test_follow_waits_for_what_comes_and_ctrl_c_ends_it_quietly(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/shop.db"

    async def publish(name: str) -> None:
        async with open_log(url, shop) as log:
            await log.publish(ProductListed(sku=name, description="", unit_price_cents=1, currency="EUR"))

    asyncio.run(publish("before"))
    with forked.Popen(
        command("tail", "products", "--follow", "--json", "--log", url), stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert json.loads(process.stdout.readline())["key"] == "before"
        asyncio.run(publish("after"))
        assert json.loads(process.stdout.readline())["key"] == "after"
        process.send_signal(signal.SIGINT)
        assert process.stderr.read() == b""
    assert process.returncode == 130


def test_a_saga_is_followed_from_before_its_first_event_to_its_end(tmp_path: Path) -> None:
    narrow = {**os.environ, "COLUMNS": "60"}  # in a pipe an event is one line all the same
    url = f"sqlite:///{tmp_path}/shop.db"

    async def delivered() -> None:
        async with open_log(url, shop) as log:
            await log.publish(ProductListed(sku="A", description="", unit_price_cents=250, currency="EUR"))

    async def ordered() -> None:
        async with open_log(url, shop) as log:
            await log.publish_many([order("1"), order("2")])
            await served(log)

    asyncio.run(delivered())
    with forked.Popen(
        command("saga", "1", "--follow", "--log", url),
        env=narrow,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline() == "1 has no event yet; waiting for the first one.\n"
        asyncio.run(ordered())
        lines = process.stdout.read().splitlines()
        assert process.stderr.read() == ""
    assert process.returncode == 0
    kinds = [re.findall(r"[A-Z][A-Za-z]+", line)[0] for line in lines[:-2]]
    assert kinds == ["OrderSubmitted", "OrderPlaced", "LineRequested", "LineRefused", "StockRejected", "OrderCancelled"]
    assert "ended with OrderCancelled" in lines[-1]


RUNNABLE = """
from contextlib import asynccontextmanager
from services import shop as declared
from eventlib import Choreography
from tests.integration import shop_log as fakes

@asynccontextmanager
async def outside(url):
    yield {"gateway": fakes.Gateway(), "carrier": fakes.Carrier()}

shop = Choreography("shop", declared.services, facts=declared.facts, ports=outside)
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_run_serves_until_it_is_told_to_stop(
    tmp_path: Path, number: signal.Signals, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "runnable.py").write_text(RUNNABLE)
    url = f"sqlite:///{tmp_path}/shop.db"
    here = Path(__file__).parents[2]
    with forked.Popen(
        command("run", "--app", "runnable:shop", "--log", url),
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(here)},
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stderr is not None
        assert process.stderr.readline() == f"Running order, stock, payment, dispatch on {url}; Ctrl-C stops.\n"

        async def placed() -> None:
            async with open_log(url, shop) as log:
                await log.publish_many([order("refused")])

        asyncio.run(placed())
        monkeypatch.setenv("EVENTLIB_LOG", url)
        deadline = time.monotonic() + 20
        while "OrderCancelled" not in capsys.readouterr().out:
            assert time.monotonic() < deadline
            assert run(["tail", "orders"]) == 0
        process.send_signal(number)
        assert process.stderr.read() == "Stopping: finishing the inputs in progress.\nStopped.\n"
    assert process.returncode == 0
