"""The routes that `SagaApi.resource` makes of two functions, and what it refuses."""

import pytest
from pydantic import BaseModel

from eventlib import Runtime, WiringError, open_log
from eventlib.http import SagaApi
from eventlib.queries import SagaIndex
from eventlib.testing import client_of
from tests.apps.bank import APP, Account, Closed, Deposited, accounts


class Wanted(BaseModel, extra="forbid"):
    cents: int


class Shown(BaseModel):
    cents: int


def requested(account: str, wanted: Wanted) -> Deposited:
    return Deposited(account=account, cents=wanted.cents)


def shown(account: Account) -> Shown:
    return Shown(cents=account.cents)


async def test_a_saga_begins_once_is_read_and_ends_with_its_final_event() -> None:
    async with open_log("memory://", APP) as log, Runtime(log) as runtime:
        api = SagaApi(SagaIndex(log, accounts), Deposited, name="bank")
        async with client_of(api.include(api.resource("/accounts", requested, shown))) as client:
            once = {"Idempotency-Key": "mine"}
            first, again = [await client.post("accounts", json={"cents": 3}, headers=once) for _ in range(2)]
            assert (first.status_code, first.json()) == (202, again.json())
            account, position = first.json()["account"], first.json()["position"]
            assert first.headers["Location"] == f"/accounts/{account}"
            read = await client.get(f"accounts/{account}", params={"min_position": position})
            assert read.json() == {"cents": 3}
            assert "Staleness-Ms" in read.headers
            assert (await client.post("accounts", json={"cents": 4}, headers=once)).status_code == 422
            assert (await client.post("accounts", json={"column": 4})).status_code == 422
            assert (await client.get("accounts/none")).json()["type"] == "urn:bank:problem:unknown-account"
            assert not api.events.has_ended(account)
            await log.publish(Closed(account=account))
            await runtime.idle()
            told = (await client.get(f"accounts/{account}/events")).text  # it ends, since the saga has
            assert "event: Stated" in told
            assert api.events.has_ended(account)
            paths = (await client.get("openapi.json")).json()["paths"]
            assert paths["/accounts"]["post"]["requestBody"]["content"]["application/json"]["schema"]["$ref"].endswith(
                "/Wanted"
            )
            assert paths["/accounts/{account}"]["get"]["parameters"][0]["name"] == "account"


async def test_functions_without_models_are_refused() -> None:
    async with open_log("memory://", APP) as log:
        api = SagaApi(SagaIndex(log, accounts), Deposited, name="bank")

        def of_nothing(account: str) -> Deposited:
            return Deposited(account=account, cents=1)

        def of_a_mapping(account: Account) -> dict[str, int]:
            return {"cents": account.cents}

        with pytest.raises(WiringError, match="of_nothing is annotated with no model"):
            api.resource("/accounts", of_nothing, shown)  # type: ignore[arg-type]  # a type checker sees it, too
        with pytest.raises(WiringError, match="of_a_mapping is annotated with no model"):
            api.resource("/accounts", requested, of_a_mapping)  # type: ignore[arg-type]  # here, too
