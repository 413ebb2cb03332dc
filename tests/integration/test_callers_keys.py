"""An idempotency key is its caller's own, leads to an id that cannot be guessed, and may expire."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest
from pydantic import SecretStr

from eventlib.http import ApiConfig
from eventlib.identity import Identity, IdentityOptions, Role, add_token
from eventlib.spi import Log, Record
from services.order.api import create_app
from services.order.index import OrderIndex
from tests.integration.api_shop import open_shop, place, refused, serving, wanted

KEYS = (SecretStr("ab" * 16), SecretStr("cd" * 16))


def bearer(text: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {text}"}


async def test_keys_belong_to_callers_and_ids_to_the_installation(tmp_path: Path) -> None:
    tokens = tmp_path / "tokens.json"
    texts = [add_token(tokens, name, [Role.CUSTOMER], name)[0] for name in ("c-1", "c-2")]
    body = wanted(customer_id=None)
    ids = dict[tuple[int, int], str]()
    async with open_shop(tmp_path) as found:
        for number, key in enumerate(KEYS):
            identity = Identity(IdentityOptions(tokens_file=tokens, key=key))
            app = create_app(found.log, None, OrderIndex(found.log, tmp_path / f"{number}.db"), identity)
            async with serving(app) as client:
                for caller, text in enumerate(texts):
                    client.headers = httpx.Headers(bearer(text))
                    first, again = [await place(client, body, key="my-key") for _ in range(2)]
                    assert first["order_id"] == again["order_id"]
                    assert first["customer_id"] == f"c-{caller + 1}"
                    ids[number, caller] = first["order_id"]
                other = await client.post("/orders", json=wanted(customer_id="c-1"), headers={"Idempotency-Key": "x"})
                refused(other, 422, "another-customer")
        assert len(set(ids.values())) == 4
        records = [record async for record in requests(found.log.port)]
        assert {dict(record.headers).get("acted-by") for record in records} == {b"token:c-1", b"token:c-2"}
        assert len({record.id for record in records}) == 4


async def requests(port: Log) -> AsyncIterator[Record]:
    for partition in range((await port.topics())["order.requests"].partitions):
        for record in await port.read("order.requests", partition, 0, 1_000):
            yield record


async def test_without_identity_an_id_follows_from_the_key_as_before(tmp_path: Path) -> None:
    async with open_shop(tmp_path) as found, serving(create_app(found.log)) as client:
        first = await place(client, key="8e03978e")
        assert first["order_id"] == "5dba70e2c07948b80efa"


@pytest.mark.parametrize("idempotency_s", [0.3, None])
async def test_a_key_expires_when_that_is_set(tmp_path: Path, idempotency_s: float | None) -> None:
    config = ApiConfig(idempotency_s=idempotency_s)
    async with open_shop(tmp_path) as found, serving(create_app(found.log, config)) as client:
        first = await place(client, key="monthly")
        await asyncio.sleep(0.5)
        later = [await place(client, key="monthly") for _ in range(2)]
        assert (later[0]["order_id"] == first["order_id"]) is (idempotency_s is None)
        answer = await client.post("/orders", json=wanted("B"), headers={"Idempotency-Key": "monthly"})
        if idempotency_s is None:
            refused(answer, 422, "idempotency-key-reused")
