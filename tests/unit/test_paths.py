"""A key of any characters is the last part of an address, and comes back from it."""

from urllib.parse import urljoin

import httpx
import pytest
from fastapi import FastAPI

from eventlib.console.rendering import path_of
from eventlib.http.paths import KEY


@pytest.mark.parametrize(
    "key", [".", "..", "~.", "~..", "~~..", "~", "...", "~a", "a/../b", "%2e%2e", "a\nb", "a b?c#d", "é"]
)
async def test_a_key_comes_back_from_its_address(key: str) -> None:
    app = FastAPI()
    app.get(f"/saga/{KEY}")(lambda key: {"key": key})
    app.get(f"/parked/{KEY}/retry")(lambda key: {"key": key})
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://here") as client:
        for path in (path_of("saga", key), f"{path_of('parked', key)}/retry"):
            answer = await client.get(urljoin("http://here/sagas", path))  # as a browser resolves a link
            assert answer.json() == {"key": key}, path
