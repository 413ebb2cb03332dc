"""An HTTP API in the process of its test."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx
from fastapi import FastAPI

_LOOK_S = 0.01


@asynccontextmanager
async def client_of(api: FastAPI) -> AsyncIterator[httpx.AsyncClient]:
    """Serve an API beside services in this process, and yield a client of it, once it is ready to answer."""
    transport = httpx.ASGITransport(api)
    async with (
        api.router.lifespan_context(api),
        httpx.AsyncClient(transport=transport, base_url="http://localhost/") as client,
    ):
        while (await client.get("readyz")).is_error:  # noqa: ASYNC110  its index reads the log first; HTTP has no event
            await asyncio.sleep(_LOOK_S)
        yield client
