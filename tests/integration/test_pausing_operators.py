"""Operators pause and resume: by command, over HTTP, on Kafka; who and why is on the log, and every view shows what is paused."""

import asyncio
import json
from getpass import getuser
from pathlib import Path
from typing import Any

import httpx
import pytest

from eventlib import Runtime, open_log
from eventlib.admin.api import create_admin
from eventlib.cli import run
from eventlib.errors import ContractError
from eventlib.operations.complaints import Limits, complaints
from eventlib.operations.parked_commands import apart_from_paused
from eventlib.operations.pausing import pause, resume, settled, what_waits
from eventlib.operations.status import StatusReader
from eventlib.queries.parked import parkings
from eventlib.queries.pauses import PauseTarget, pauses
from eventlib.search import SagaQuery, SagaSearch
from tests.apps.small_shop import Ordered, Outside, make_shop, settle
from tests.handling import handle_all
from tests.integration import parked_app
from tests.integration.parcels_app import APP as PARCELS
from tests.integration.parcels_app import ParcelSubmitted
from tests.integration.parcels_log import FIRST, Carriers
from tests.integration.reopening import events
from tests.operators import request_retry

APP = ["--app", "tests.integration.parked_app:app"]
WHY = "os:ada", "the bank migrates"
TEN_S = 10.0


@pytest.fixture
def url(tmp_path: Path) -> str:
    """A log with two inputs that no service has handled."""
    url = f"sqlite:///{tmp_path}/log.db"

    async def told() -> None:
        async with open_log(url, parked_app.app) as log:
            await settle(log)
            for name in ("a", "b"):
                await log.publish(parked_app.ExternalStates(name=name, number=1))

    asyncio.run(told())
    return url


def typed(capsys: pytest.CaptureFixture[str], url: str, *arguments: str, code: int = 0) -> str:
    capsys.readouterr()
    assert run([*arguments, *APP, "--log", url]) == code
    shown = capsys.readouterr()
    return shown.out + shown.err


def test_a_command_pauses_and_resumes(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    shown = typed(capsys, url, "pause", "ears", "--dry-run")
    assert "service ears: 2 inputs and 0 effects would wait now." in shown
    assert "--as-previewed" in shown
    assert typed(capsys, url, "acts") == "Nothing was done by hand.\n"
    paused = typed(capsys, url, "pause", "ears", "--reason", "the bank: migrates", "--wait", "0")
    assert "service ears is paused: 2 inputs and 0 effects wait." in paused
    assert "4 tasks of ears" in paused
    assert "paused already" in typed(capsys, url, "pause", "ears", "--reason", "again", code=1)
    status = json.loads(typed(capsys, url, "status", "--allow-stopped", "--json"))
    (shown,) = status["paused"]
    assert (shown["kind"], shown["service"], shown["by"], shown["asked"]) == ("service", "ears", f"os:{getuser()}", 4)
    assert "service ears is paused, since" in typed(capsys, url, "status", "--allow-stopped")
    assert "service ears is paused since" in typed(capsys, url, "doctor")
    assert "waits  service ears is paused, since" in typed(capsys, url, "saga", "a")
    resumed = json.loads(typed(capsys, url, "resume", "ears", "--wait", "0", "--json"))
    assert (resumed["act"], resumed["waits"]["inputs"], resumed["paused"]) == ("resume", 2, None)
    found = [json.loads(line) for line in typed(capsys, url, "acts", "--json").splitlines()]
    assert [(each["what"], each["about"], each["reason"]) for each in found] == [
        ("pause", "service ears", "the bank: migrates"),
        ("resume", "service ears", ""),
    ]


def test_only_what_is_paused_is_resumed(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    typed(capsys, url, "pause", "ears", "--key", "a", "--reason", "x", "--wait", "0")
    assert "service ears is not paused; in ears, key a of listener is" in typed(capsys, url, "resume", "ears", code=1)
    assert "no service 'eyes'" in typed(capsys, url, "pause", "eyes", "--reason", "x", code=1)


async def test_the_admin_api_pauses_and_resumes(url: str) -> None:
    async with open_log(url, parked_app.app) as log:
        transport = httpx.ASGITransport(create_admin(log, "0123456789abcdef"))
        headers = {"Authorization": "Bearer 0123456789abcdef"}
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost", headers=headers) as client:
            body: dict[str, Any] = {"decider": "listener", "key": "a", "reason": "a call"}
            assert (await client.post("/services/ears/pause", json=body)).status_code == 202
            (paused,) = (await client.get("/pauses")).json()["paused"]
            assert (paused["kind"], paused["key"], paused["by"]) == ("key", "a", "token:admin-token")
            await settle(log)
            assert [event.name for event in await events(log, "heard") if isinstance(event, parked_app.Heard)] == ["b"]
            dry = await client.post("/services/ears/resume", json={"decider": "listener", "key": "a", "dry_run": True})
            released = dry.json()["released"]
            token = dry.json()["as_previewed"]
            assert (released["prospect"], [each["type"] for each in released["emitted"]]) == ("is handled", ["Heard"])
            again = await client.post("/services/ears/pause", json=body)
            assert (again.status_code, "paused already" in again.json()["detail"]) == (422, True)
            assert (await client.post("/services/eyes/pause", json=body)).status_code == 404
            assert (await client.post("/services/ears/pause", json={"decider": "x", "reason": " "})).status_code == 422
            (parking,) = await parkings(log)
            ready, (left_out,) = await apart_from_paused(log, [parking])
            assert (parking.is_paused, ready, left_out.parking) == (True, [], parking)
            retried = (await client.post("/parked/retry", json={"reason": "a try"})).json()
            assert (retried["asked"], [each["key"] for each in retried["left_out"]]) == (0, ["a"])
            assert retried["left_out"][0]["why"] == left_out.why
            assert "key a of listener is paused, by token:admin-token: a call. Resume it first" in left_out.why
            with pytest.raises(ContractError, match="key a of listener is paused, by token:admin-token: a call"):
                await request_retry(log, parking, "os:eve")
            limits = Limits(may_stop=True)
            assert complaints(await StatusReader(log).read(), limits) == [], "what waits on purpose is no complaint"
            as_seen = {"decider": "listener", "key": "a", "as_previewed": token}
            assert (await client.post("/services/ears/resume", json=as_seen)).status_code == 202
            await settle(log)
            assert len(await events(log, "heard")) == 2
            assert (await client.get("/pauses")).json() == {"paused": []}


async def test_a_saga_that_waits_on_a_pause_says_so(tmp_path: Path) -> None:
    async with open_log(f"sqlite:///{tmp_path}/log.db", PARCELS) as log:
        effect = next(iter(PARCELS.decider("parcel").effects)).__name__
        targets = [PauseTarget("depot", effect=effect), PauseTarget("depot", "parcel", "K")]
        async with Runtime(log, ports={"carrier": Carriers()}) as runtime, asyncio.timeout(60):
            await runtime.idle()  # a new service does not act on what was there before it
            for target in targets:
                await pause(log, target, *WHY)
                await settled(log, target, 30)
            for parcel_id in ("E", "K"):
                await log.publish(ParcelSubmitted(parcel_id=parcel_id, packed_at=FIRST))
            await runtime.idle()
        async with SagaSearch(log, path=tmp_path / "sagas.db") as search:
            assert await search.caught_up(TEN_S)
            page = await search.page(SagaQuery("waiting_kind = 'paused'", "saga"))
            waits = {each["saga"]: each["waits"][0] for each in page.sagas}
            assert {saga: wait["reason"] for saga, wait in waits.items()} == dict.fromkeys(
                "EK", "paused by os:ada: the bank migrates"
            )
            await resume(log, targets[0], "os:ada")
            await handle_all(log, ports={"carrier": Carriers()})
            assert await search.caught_up(TEN_S)
            kept = await search.page(SagaQuery("waiting_kind = 'paused'", "saga"))
            assert [each["saga"] for each in kept.sagas] == ["K"]


@pytest.mark.extended
async def test_on_kafka_tasks_take_pauses_up_while_they_run_and_when_they_start(kafka_url: str) -> None:
    url, service, key = (
        kafka_url,
        PauseTarget("orders"),
        PauseTarget("orders", "order", "a"),
    )
    gateway = Outside()
    async with open_log(url, make_shop(set())) as log:
        async with Runtime(log, ports={"gateway": gateway}) as runtime, asyncio.timeout(240):
            await log.publish(Ordered(order_id="a", cents=1), idempotency_key="1")
            await runtime.idle()
            for target in (service, key):
                await pause(log, target, *WHY)
                await settled(log, target, 60)
            for number, order_id in enumerate("ab"):
                await log.publish(Ordered(order_id=order_id, cents=2), idempotency_key=f"2 {number}")
            await runtime.idle()
            assert gateway.calls == ["a"]
            assert (await what_waits(log, service)).inputs == 2
        async with Runtime(log, ports={"gateway": gateway}) as runtime, asyncio.timeout(240):
            await runtime.idle()
            assert gateway.calls == ["a"]
            await resume(log, service, "os:ada")
            await settled(log, service, 60)
            await runtime.idle()
            assert gateway.calls == ["a", "b"]
            await resume(log, key, "os:ada")
            await settled(log, key, 60)
            await runtime.idle()
        assert (gateway.calls, await pauses(log)) == (["a", "b", "a"], [])
