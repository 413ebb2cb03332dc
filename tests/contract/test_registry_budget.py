"""A schema that takes long to compare is refused after a while, and holds up neither other clients nor the end."""

import asyncio
import json
from time import monotonic
from typing import Any

import httpx
import pytest

from eventlib.http.registry.app import make_app
from eventlib.http.registry.options import SchemasOptions
from eventlib.http.registry.service import open_service
from eventlib.log.memory import MemoryLog
from eventlib.registry.comparing import CompareLimits
from eventlib.registry.compatibility import Budget, OverBudgetError, within
from eventlib.registry.compatibility.avro import avro_unreadable
from eventlib.registry.compatibility.json_schema import json_unreadable
from eventlib.registry.parsing import SchemaType, parse
from tests.contract.registry_servers import registry


def alternatives(count: int, first: int = 0) -> str:
    """Return a schema with so many alternatives, none of which accepts what another one does."""
    branches = [{"properties": {f"p{n}": {"const": n}}, "required": [f"p{n}"]} for n in range(first, first + count)]
    return json.dumps({"type": "object", "anyOf": branches})


def body(text: str) -> dict[str, Any]:
    return {"schemaType": "JSON", "schema": text}


@pytest.mark.parametrize("budget", [Budget(1_000, 1e9), Budget(1_000_000_000, 0.2)])
def test_a_comparison_ends_with_its_budget(budget: Budget) -> None:
    old, new = (parse(SchemaType.JSON, alternatives(200, first), {}).model for first in (0, 1))
    began = monotonic()
    with pytest.raises(OverBudgetError), within(budget):
        json_unreadable(new, old)
    assert monotonic() - began < 60


def test_an_avro_union_is_paid_for_too() -> None:
    names = [{"type": "record", "name": f"R{n}", "fields": [{"name": "a", "type": "int"}]} for n in range(100)]
    model = parse(SchemaType.AVRO, json.dumps(names), {}).model
    with pytest.raises(OverBudgetError), within(Budget(100, 1e9)):
        avro_unreadable(model, model)


async def test_a_schema_over_the_budget_is_refused_with_a_remedy() -> None:
    async with registry(limits=CompareLimits(seconds=0.3)) as client:
        path = "/subjects/large/versions"
        assert (await client.post(path, json=body(alternatives(200)))).status_code == 200
        refused = await client.post(path, json=body(alternatives(200, 1)))
        assert (refused.status_code, refused.json()["error_code"]) == (422, 42290)
        assert "use fewer alternatives in anyOf" in refused.json()["message"]
        asked = await client.post("/compatibility/subjects/large/versions", json=body(alternatives(200, 1)))
        assert asked.json()["error_code"] == 42290


async def test_while_a_schema_is_compared_others_are_registered() -> None:
    async with registry(limits=CompareLimits(seconds=60)) as client:
        path = "/subjects/large/versions"
        await client.post(path, json=body(alternatives(200)))
        long = asyncio.create_task(client.post(path, json=body(alternatives(200, 1))))
        for number in range(20):
            simple = json.dumps({"type": "object", "properties": {"a": {"const": number}}})
            assert (await client.post(f"/subjects/s{number}/versions", json=body(simple))).status_code == 200
        assert not long.done()
        long.cancel()  # as when the server stops: the thread ends with it, or the loop would wait for it
        await asyncio.gather(long, return_exceptions=True)


async def test_a_comparison_ends_when_the_server_stops() -> None:
    async with open_service(
        MemoryLog(), SchemasOptions(), "http://registry", limits=CompareLimits(seconds=600)
    ) as service:
        transport = httpx.ASGITransport(make_app(service))
        async with httpx.AsyncClient(transport=transport, base_url="http://registry") as client, asyncio.timeout(120):
            path = "/subjects/large/versions"
            await client.post(path, json=body(alternatives(200)))
            long = asyncio.create_task(client.post(path, json=body(alternatives(200, 1))))
            await asyncio.sleep(0.2)
            service.registrar.end()
            assert (await long).status_code == 503


async def test_a_subject_that_changes_meanwhile_is_compared_again() -> None:
    async with registry(limits=CompareLimits(seconds=60)) as client:
        path = "/subjects/two/versions"
        texts = [json.dumps({"type": "object", "properties": {f"p{n}": {"type": "string"}}}) for n in range(8)]
        answers = await asyncio.gather(*(client.post(path, json=body(each)) for each in texts))
        assert sorted({each.status_code for each in answers} - {503}) == [200, 409]
        assert sum(each.status_code == 200 for each in answers) == len((await client.get(path)).json())
