"""Registries that are killed, with SIGKILL, while clients register schemas: the other instance takes over."""

import asyncio
import ssl
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from secrets import token_hex

import httpx
import pytest

from eventlib.codec.registry import Schema
from eventlib.codec.schema_ids import Schemas
from eventlib.devtools.kafka import Cluster
from eventlib.identity import Role
from eventlib.log.sqlite.log import SqliteLog
from tests.contract.registry_servers import identified, self_signed
from tests.integration.registry_processes import Instance, Registrations, killed_again_and_again, schema


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as opened:
        yield opened


async def attacked(stack: ExitStack, log: str, directory: Path, count: int, kills: int) -> None:
    instances = []
    for name in ("the first, which writes", "the other"):
        instances.append(stack.enter_context(Instance(log, directory, name)))
        await instances[-1].answers()
    work = Registrations(count, subjects=20)
    working = asyncio.create_task(work.run([each.url for each in instances]))
    await killed_again_and_again(instances if kills > 1 else instances[:1], work, kills, seed=kills)
    async with asyncio.timeout(300):
        await working
    for each in instances:
        await work.check(each.url)
        assert each.end() == 0


async def test_no_id_is_lost_doubled_or_changed_by_kills(stack: ExitStack, tmp_path: Path) -> None:
    log = f"sqlite:///{tmp_path}/shop.db"
    await attacked(stack, log, tmp_path, count=100, kills=1)
    opened = await SqliteLog.open(tmp_path / "shop.db")
    schemas = Schemas(opened)
    found = await schemas.ids([(f"s{number % 20}", Schema(schema(number))) for number in range(100)])
    await opened.close()
    assert sorted(each or 0 for each in found) == [*range(1, 101)]


@pytest.mark.slow
async def test_a_thousand_schemas_on_sqlite(stack: ExitStack, tmp_path: Path) -> None:
    await attacked(stack, f"sqlite:///{tmp_path}/shop.db", tmp_path, count=1_000, kills=12)


@pytest.mark.slow
async def test_a_thousand_schemas_on_kafka(stack: ExitStack, tmp_path: Path, broker: Cluster) -> None:
    log = f"{broker.url}?prefix=registry{token_hex(4)}."
    await attacked(stack, log, tmp_path, count=1_000, kills=12)


@pytest.mark.parametrize("name", [None, "shop-registry"])
async def test_it_is_reached_over_tls_and_forwards_with_the_users_token(
    stack: ExitStack, tmp_path: Path, name: str | None
) -> None:
    tls = self_signed(tmp_path, name)
    named = {} if name is None else {"sni_hostname": name}
    known, tokens = identified(tmp_path, ann=Role.OPERATOR)
    variables = known | {
        "EVENTLIB_TLS_CERTIFICATE": tls.certificate,
        "EVENTLIB_TLS_KEY": tls.key,
        "EVENTLIB_REGISTRY_CA": tls.certificate,
        "EVENTLIB_SCHEMAS_CERTIFICATE_NAME": name or "",
    }
    log = f"sqlite:///{tmp_path}/shop.db"
    instances = [stack.enter_context(Instance(log, tmp_path, each, **variables)) for each in ("one", "other")]
    trusting = ssl.create_default_context(cafile=tls.certificate)
    async with httpx.AsyncClient(verify=trusting, auth=("ann", tokens["ann"]), timeout=60) as client:
        for number, each in enumerate(instances):
            await each.answers()
            assert each.url.startswith("https://")
            answer = await client.post(
                f"{each.url}/subjects/x/versions", json={"schema": schema(number)}, extensions=named
            )
            assert answer.json() == {"id": number + 1}
        for each in instances:
            async with asyncio.timeout(120):
                while (await client.get(f"{each.url}/subjects/x/versions", extensions=named)).json() != [1, 2]:
                    await asyncio.sleep(0.05)  # who follows is a moment behind
            assert (
                await client.get(f"{each.url}/subjects", auth=("ann", "guess"), extensions=named)
            ).status_code == 401
            assert "may write" not in each.said
