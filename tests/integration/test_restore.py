"""The runbook's restore, on a shop that has lost its disk: with the log, its journal, the stores and the index."""

import asyncio
import json
import shutil
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest

from analytics.archiving import archive
from eventlib.cli import run
from eventlib.log.sqlite.log import SqliteLog
from tests.integration.api_shop import client_of, place, wanted
from tests.integration.test_api_process import run as started
from tests.integration.test_api_process import stock_shelves
from tests.ports import free_port


@asynccontextmanager
async def shop_on(disk: Path) -> AsyncIterator[tuple[httpx.AsyncClient, "subprocess.Popen[str]"]]:
    port = free_port()
    process = started(disk, "--http", str(port))
    async with client_of(process, port) as client:
        yield client, process


async def ended(client: httpx.AsyncClient, order_id: str) -> None:
    async with asyncio.timeout(120):
        while (await client.get(f"/orders/{order_id}")).json().get("ended_at") is None:
            await asyncio.sleep(0.05)


async def test_a_shop_whose_disk_is_lost_goes_on_from_its_backup_and_names_what_is_gone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    disk, backups, archived = tmp_path / "disk", tmp_path / "backups", tmp_path / "archive"
    disk.mkdir()
    url = f"sqlite:///{disk}/shop.db"
    await stock_shelves(disk)
    async with shop_on(disk) as (client, process):
        before = [(await place(client, key=f"before-{n}"))["order_id"] for n in range(4)]
        for order_id in before:
            await ended(client, order_id)
        assert await asyncio.to_thread(run, ["backup", "--log", url, "--to", f"{backups}/"]) == 0
        after = [(await place(client, key=f"after-{n}"))["order_id"] for n in range(3)]
        log = await SqliteLog.open(disk / "shop.db")
        await archive(log, archived)
        former = log.log_id
        await log.close()
        process.kill()
    shutil.rmtree(disk)
    capsys.readouterr()

    restored = ["restore", "--from", str(backups), "--to", url, "--live", f"archive:{archived}"]
    assert await asyncio.to_thread(run, [*restored, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["is_another"]
    assert told["log_id"] != former
    requests = [each for each in told["lost"] if each["topic"] == "order.requests"]
    assert {key for each in requests for key in each["keys"]} == {*after}
    assert told["lost_records"] == sum(each["end"] - each["first"] for each in told["lost"])

    async with shop_on(disk) as (client, _):
        for order_id in before:
            found = (await client.get(f"/orders/{order_id}")).json()
            assert found["status"] == "completed"
        for order_id in after:
            assert (await client.get(f"/orders/{order_id}")).status_code == 404
        # A customer who asks again under the same key has the order once more, under its id.
        assert [(await place(client, key=f"after-{n}"))["order_id"] for n in range(3)] == after
        assert [(await place(client, key=f"before-{n}"))["order_id"] for n in range(4)] == before
        for order_id in after:
            await ended(client, order_id)
        assert (await client.post("/orders", json=wanted())).status_code == 202
    assert await asyncio.to_thread(run, ["replay", "--log", url]) == 0
    assert "Nothing differs" in capsys.readouterr().out
    assert await asyncio.to_thread(run, ["doctor", "--log", url, "--json"]) == 0
    tail = [each for each in map(json.loads, capsys.readouterr().out.splitlines()) if each["check"] == "tail"]
    assert "a loss was accepted" in tail[0]["what"]
