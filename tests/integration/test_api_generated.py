"""Requests generated from the API's own description, fitting and not: nothing breaks it, every refusal says why."""

import asyncio
from collections import Counter
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from eventlib.http import ApiConfig
from tests.integration.api_shop import Json, api, open_shop

CASES = {("POST", "/orders"): 80}
FEWER = 20
EXPECTED = {200, 202, 400, 404, 405, 406, 409, 413, 415, 422}


def try_all(described: Json, base_url: str, one_in: int) -> Counter[int]:
    """Send generated requests, one in so many of them, check what comes back, and count the answers by status."""
    import schemathesis
    from schemathesis import GenerationMode
    from schemathesis.core.result import Ok

    schema = schemathesis.openapi.from_dict(described)
    seen = Counter[int]()
    for found in schema.get_all_operations():
        assert isinstance(found, Ok)
        operation = found.ok()

        @settings(
            max_examples=CASES.get((operation.method.upper(), operation.path), FEWER) // one_in,
            deadline=None,
            derandomize=True,
            database=None,
            phases=[Phase.explicit, Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        @given(case=st.one_of([operation.as_strategy(generation_mode=mode) for mode in GenerationMode]))
        def try_one(case: Any) -> None:
            answer = case.call(base_url=base_url, timeout=15)
            seen[answer.status_code] += 1
            check(answer.status_code, answer.headers.get("content-type", [""])[0], answer.content)

        try_one()
    return seen


def check(status: int, content_type: str, content: bytes) -> None:
    assert status in EXPECTED, content
    if status < 400:
        return
    assert content_type == "application/problem+json"
    problem = httpx.Response(status, content=content).json()
    assert problem["detail"]
    if status in {400, 422}:
        assert problem["errors"], problem
        assert all(error["in"] and error["field"] and error["message"] for error in problem["errors"]), problem


@pytest.mark.parametrize("one_in", [4, pytest.param(1, marks=pytest.mark.extended)])
async def test_nothing_that_is_sent_breaks_it(tmp_path: Path, one_in: int) -> None:
    async with open_shop(tmp_path) as shop, api(shop, ApiConfig(decision_s=1)) as client:
        described = (await client.get("/openapi.json")).json()
        described["components"]["schemas"]["WantedLine"]["properties"]["sku"]["enum"] = ["A", "B", "NONE"]
        described["components"]["schemas"]["WantedOrder"]["properties"]["currency"]["enum"] = ["GBP", "EUR"]
        seen = await asyncio.to_thread(try_all, described, str(client.base_url), one_in)
    assert seen.total() >= 200 // one_in
    assert min(seen[200], seen[202], seen[404], seen[422]) > 0, seen
