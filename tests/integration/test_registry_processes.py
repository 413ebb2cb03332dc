"""Registries that are killed, with SIGKILL, while clients register schemas: the other instance takes over."""

import asyncio
import json
import ssl
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import cycle
from pathlib import Path
from secrets import token_hex

import httpx
import pytest

from eventlib.codec.registry import Schema
from eventlib.codec.schema_ids import Schemas
from eventlib.devtools.kafka import Cluster
from eventlib.log.sqlite.log import SqliteLog
from tests.contract.registry_servers import self_signed
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


@pytest.mark.extended
async def test_another_user_takes_over_without_a_refusal(stack: ExitStack, tmp_path: Path) -> None:
    before, after = {"shop": "before"}, {"shop-2": "after"}
    log = f"sqlite:///{tmp_path}/shop.db"
    instances = [stack.enter_context(Instance(log, tmp_path, name, **writers(before))) for name in ("one", "other")]
    for each in instances:
        await each.answers()
    urls = [each.url for each in instances]
    for users, changed in (({**before, **after}, before), (after, after)):
        registering = asyncio.create_task(registered(urls, changed, 40))
        for each in instances:
            assert each.end() == 0
            each.start(**writers(users))
            await each.answers()
        await registering
    async with httpx.AsyncClient(timeout=60) as client:
        for url in urls:
            assert (await client.get(f"{url}/subjects", auth=("shop", "before"))).status_code == 401
            async with asyncio.timeout(120):
                while len((await client.get(f"{url}/subjects", auth=("shop-2", "after"))).json()) < 80:
                    await asyncio.sleep(0.05)  # who follows is a moment behind


def writers(users: dict[str, str]) -> dict[str, str]:
    return {"EVENTLIB_SCHEMAS_WRITERS": json.dumps(users)}


async def registered(urls: list[str], user: dict[str, str], count: int) -> None:
    """Register schemas as a user, each at the next instance that is there: none may refuse that user."""
    ((name, password),) = user.items()
    tried, number = cycle(urls), 0
    async with httpx.AsyncClient(auth=(name, password), timeout=httpx.Timeout(60, connect=1)) as client:
        while number < count:
            path = f"{next(tried)}/subjects/{name}-{number}/versions"
            try:
                answer = await client.post(path, json={"schema": schema(number)})
            except httpx.HTTPError:  # one that is started again just now
                await asyncio.sleep(0.05)
                continue
            assert answer.status_code in {200, 503}, answer.text
            number += answer.status_code == 200
            await asyncio.sleep(0.05)


@pytest.mark.slow
async def test_a_thousand_schemas_on_sqlite(stack: ExitStack, tmp_path: Path) -> None:
    await attacked(stack, f"sqlite:///{tmp_path}/shop.db", tmp_path, count=1_000, kills=12)


@pytest.mark.slow
async def test_a_thousand_schemas_on_kafka(stack: ExitStack, tmp_path: Path, broker: Cluster) -> None:
    log = f"{broker.url}?prefix=registry{token_hex(4)}."
    await attacked(stack, log, tmp_path, count=1_000, kills=12)


@pytest.mark.parametrize("name", [None, "shop-registry"])
async def test_it_is_reached_over_tls_and_forwards_with_the_users_password(
    stack: ExitStack, tmp_path: Path, name: str | None
) -> None:
    tls = self_signed(tmp_path, name)
    named = {} if name is None else {"sni_hostname": name}
    variables = {
        "EVENTLIB_SCHEMAS_CERTIFICATE": tls.certificate,
        "EVENTLIB_SCHEMAS_KEY": tls.key,
        "EVENTLIB_SCHEMAS_CA": tls.certificate,
        "EVENTLIB_SCHEMAS_WRITERS": json.dumps({"ann": "s3cret"}),
        "EVENTLIB_SCHEMAS_CERTIFICATE_NAME": name or "",
    }
    log = f"sqlite:///{tmp_path}/shop.db"
    instances = [stack.enter_context(Instance(log, tmp_path, each, **variables)) for each in ("one", "other")]
    trusting = ssl.create_default_context(cafile=tls.certificate)
    async with httpx.AsyncClient(verify=trusting, auth=("ann", "s3cret"), timeout=60) as client:
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
            assert "everybody may write" not in each.said
