"""Schemas, and requests to a registry's REST API that a test makes often."""

import json
from typing import Any

import httpx


def record(*fields: tuple[str, Any], name: str = "R") -> str:
    return json.dumps({"type": "record", "name": name, "fields": [{"name": each, "type": of} for each, of in fields]})


A, AB = record(("a", "int")), record(("a", "int"), ("b", "string"))
PROTO = 'syntax = "proto3"; package shop; message M { int32 a = 1; }'


async def post(client: httpx.AsyncClient, path: str, schema: str, **more: Any) -> Any:
    return (await client.post(path, json={"schema": schema, **more})).json()


async def register(client: httpx.AsyncClient, subject: str, schema: str, **more: Any) -> int:
    answer = await client.post(f"/subjects/{subject}/versions", json={"schema": schema, **more})
    assert answer.status_code == 200, answer.text
    return int(answer.json()["id"])


async def got(client: httpx.AsyncClient, path: str, **query: Any) -> Any:
    answer = await client.get(path, params=query)
    return answer.json() if answer.status_code == 200 else (answer.status_code, answer.json()["error_code"])


async def refused(client: httpx.AsyncClient, method: str, path: str, body: Any = None) -> tuple[int, int]:
    answer = await client.request(method, path, json=body)
    assert answer.json().keys() == {"error_code", "message"}
    return answer.status_code, answer.json()["error_code"]
