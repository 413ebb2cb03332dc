"""The registry's REST API, as Confluent's documentation has it: answers, codes, and what is left when it is deleted."""

import base64
import json
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from eventlib.codec.registry import Schema
from eventlib.codec.schema_ids import Schemas
from eventlib.log.memory import MemoryLog
from eventlib.log.record import Record
from tests.contract.registry_servers import registry


def record(*fields: tuple[str, Any], name: str = "R") -> str:
    return json.dumps({"type": "record", "name": name, "fields": [{"name": each, "type": of} for each, of in fields]})


A, AB = record(("a", "int")), record(("a", "int"), ("b", "string"))
PROTO = 'syntax = "proto3"; package shop; message M { int32 a = 1; }'


@pytest.fixture
async def client() -> AsyncIterator[httpx.AsyncClient]:
    async with registry() as opened:
        yield opened


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


async def test_a_schema_has_one_id_under_every_subject(client: httpx.AsyncClient) -> None:
    first = await register(client, "x", A)
    assert await register(client, "x", A.replace(" ", "")) == first
    assert await register(client, "y", A) == first
    assert await register(client, "z", record(("a", "string"))) == first + 1
    assert await got(client, f"/schemas/ids/{first}") == {"schema": A.replace(" ", "")}
    assert await got(client, f"/schemas/ids/{first}", fetchMaxId=True) == {"schema": A.replace(" ", ""), "maxId": 2}
    assert (await client.get(f"/schemas/ids/{first}/schema")).json() == json.loads(A)
    assert await got(client, f"/schemas/ids/{first}/subjects") == ["x", "y"]
    assert await got(client, f"/schemas/ids/{first}/versions") == [{"subject": each, "version": 1} for each in "xy"]
    assert await got(client, "/schemas/ids/9") == (404, 40403)
    assert await got(client, "/schemas/ids/nine") == (404, 404)


async def test_versions_are_listed_found_and_looked_up(client: httpx.AsyncClient) -> None:
    await client.put("/config", json={"compatibility": "BACKWARD"})
    wider = json.dumps({**json.loads(A), "fields": [{"name": "a", "type": "long"}]}, separators=(",", ":"))
    assert [await register(client, "x", each) for each in (A, wider)] == [1, 2]
    assert await got(client, "/subjects") == ["x"]
    assert await got(client, "/subjects/x/versions") == [1, 2]
    newest = {"subject": "x", "version": 2, "id": 2, "schema": wider}
    for version in ("2", "latest", "-1"):
        assert await got(client, f"/subjects/x/versions/{version}") == newest
    assert (await client.get("/subjects/x/versions/latest/schema")).text == wider
    assert await post(client, "/subjects/x", wider) == newest
    assert await refused(client, "POST", "/subjects/x", {"schema": AB}) == (404, 40403)
    assert await refused(client, "POST", "/subjects/y", {"schema": AB}) == (404, 40401)
    assert await got(client, "/subjects/y/versions") == (404, 40401)
    assert await got(client, "/subjects/x/versions/3") == (404, 40402)
    for version in ("0", "-2", "newest", "99999999999"):
        assert await got(client, f"/subjects/x/versions/{version}") == (422, 42202)
    assert [each["version"] for each in await got(client, "/schemas", latestOnly=True)] == [2]
    assert [each["version"] for each in await got(client, "/schemas", limit=1, offset=0)] == [1]
    assert await got(client, "/schemas/types") == ["AVRO", "JSON", "PROTOBUF"]
    assert await got(client, "/contexts") == ["."]
    assert await got(client, "/") == {}


async def test_what_breaks_the_level_is_refused_with_the_rule_and_the_remedy(client: httpx.AsyncClient) -> None:
    await register(client, "x", A)
    answer = await client.post("/subjects/x/versions", json={"schema": AB})
    assert (answer.status_code, answer.json()["error_code"]) == (409, 409)
    assert "READER_FIELD_MISSING_DEFAULT_VALUE at /fields/1" in answer.json()["message"]
    assert "give it a default" in answer.json()["message"]
    path = "/compatibility/subjects/x/versions"
    for each in (path, f"{path}/latest", f"{path}/1"):
        assert await post(client, each, AB) == {"is_compatible": False}
        told = await post(client, f"{each}?verbose=true", AB)
        assert told["messages"][0].startswith("READER_FIELD_MISSING_DEFAULT_VALUE at /fields/1: ")
        assert await post(client, f"{each}?verbose=true", A) == {"is_compatible": True, "messages": []}
    assert await refused(client, "POST", f"{path}/2", {"schema": A}) == (404, 40402)
    assert await refused(client, "POST", "/compatibility/subjects/y/versions/1", {"schema": A}) == (404, 40401)
    assert await post(client, "/compatibility/subjects/y/versions", A) == {"is_compatible": True}
    assert (await client.put("/config/x", json={"compatibility": "none"})).json() == {"compatibility": "none"}
    assert await register(client, "x", AB) == 2


async def test_levels_are_set_for_all_and_for_one(client: httpx.AsyncClient) -> None:
    assert await got(client, "/config") == {"compatibilityLevel": "FULL_TRANSITIVE"}
    assert await got(client, "/config/x") == (404, 40408)
    assert await got(client, "/config/x", defaultToGlobal=True) == {"compatibilityLevel": "FULL_TRANSITIVE"}
    await client.put("/config", json={"compatibility": "FORWARD"})
    await client.put("/config/x", json={"compatibility": "BACKWARD", "normalize": True})
    assert await got(client, "/config/x") == {"compatibilityLevel": "BACKWARD", "normalize": True}
    assert await got(client, "/config/y", defaultToGlobal=True) == {"compatibilityLevel": "FORWARD"}
    assert (await client.delete("/config/x")).json() == {"compatibilityLevel": "BACKWARD", "normalize": True}
    assert await got(client, "/config/x") == (404, 40408)
    assert await refused(client, "DELETE", "/config/x") == (404, 40408)
    assert (await client.delete("/config")).json() == {"compatibilityLevel": "FORWARD"}
    assert await got(client, "/config") == {"compatibilityLevel": "FULL_TRANSITIVE"}
    assert await refused(client, "PUT", "/config", {"compatibility": "SOME"}) == (422, 42203)
    assert await refused(client, "PUT", "/config/x", {}) == (422, 42203)


async def test_a_deleted_version_keeps_its_id_until_it_goes_for_good(client: httpx.AsyncClient) -> None:
    await client.put("/config", json={"compatibility": "NONE"})
    for each in (A, AB):
        await register(client, "x", each)
    assert await refused(client, "DELETE", "/subjects/x/versions/2?permanent=true") == (404, 40407)
    assert (await client.delete("/subjects/x/versions/latest")).json() == 2
    assert await refused(client, "DELETE", "/subjects/x/versions/2") == (404, 40406)
    assert await got(client, "/subjects/x/versions") == [1]
    assert await got(client, "/subjects/x/versions", deleted=True) == [1, 2]
    assert await got(client, "/subjects/x/versions", deletedOnly=True) == [2]
    assert await got(client, "/subjects/x/versions/2") == (404, 40402)
    assert (await got(client, "/subjects/x/versions/2", deleted=True))["deleted"] is True
    assert await got(client, "/schemas/ids/2") == {"schema": AB.replace(" ", "")}
    assert await register(client, "x", AB) == 2
    assert await got(client, "/subjects/x/versions", deleted=True) == [1, 2, 3]
    assert (await client.delete("/subjects/x/versions/2?permanent=true")).json() == 2
    assert await got(client, "/schemas/ids/2") == {"schema": AB.replace(" ", "")}  # version 3 is it, too
    assert (await client.delete("/subjects/x")).json() == [1, 3]
    assert await refused(client, "DELETE", "/subjects/x") == (404, 40404)
    assert await got(client, "/subjects") == []
    assert await got(client, "/subjects", deleted=True) == ["x"]
    assert await got(client, "/subjects", deletedOnly=True) == ["x"]
    assert (await client.delete("/subjects/x?permanent=true")).json() == [1, 3]
    assert await got(client, "/schemas/ids/2") == (404, 40403)
    assert await refused(client, "DELETE", "/subjects/x") == (404, 40401)


async def test_a_subject_goes_for_good_only_after_it_was_deleted(client: httpx.AsyncClient) -> None:
    await register(client, "x", A)
    assert await refused(client, "DELETE", "/subjects/x?permanent=true") == (404, 40405)


async def test_an_id_is_never_given_again_even_when_compaction_has_forgotten_it() -> None:
    log = MemoryLog()
    async with registry(log) as client:
        assert [await register(client, each, record(("a", "int"), name=each)) for each in "xyz"] == [1, 2, 3]
        for query in ("", "?permanent=true"):
            await client.delete(f"/subjects/z{query}")
        await log.compact()
    async with registry(log) as client:
        assert await got(client, "/subjects", deleted=True) == ["x", "y"]
        assert await register(client, "w", record(("a", "int"), name="w")) == 4
    schemas = Schemas(log)
    await schemas.refresh()
    assert max(schemas.texts) == 4


async def test_other_schemas_are_referred_to(client: httpx.AsyncClient) -> None:
    line = record(("sku", "string"), name="Line")
    order = record(("line", "Line"), name="Order")
    reference = {"name": "Line", "subject": "line", "version": 1}
    body = {"schema": order, "references": [reference]}
    assert await refused(client, "POST", "/subjects/order/versions", body) == (422, 42201)
    await register(client, "line", line)
    latest = {**reference, "version": -1}
    assert await register(client, "order", order, references=[latest]) == 2
    assert await register(client, "order", order, references=[reference]) == 2
    assert (await got(client, "/schemas/ids/2"))["references"] == [reference]
    assert await got(client, "/subjects/line/versions/1/referencedby") == [2]
    assert await refused(client, "DELETE", "/subjects/line") == (422, 42206)
    assert await refused(client, "DELETE", "/subjects/line/versions/1") == (422, 42206)
    await client.delete("/subjects/order")
    assert await got(client, "/subjects/line/versions/latest/referencedby") == []
    assert (await client.delete("/subjects/line")).json() == [1]


async def test_the_other_formats(client: httpx.AsyncClient) -> None:
    text = json.dumps({"type": "object", "properties": {"a": {"type": "string"}}}, separators=(",", ":"))
    assert await register(client, "j", text, schemaType="JSON") == 1
    assert await got(client, "/schemas/ids/1") == {"schemaType": "JSON", "schema": text}
    assert await register(client, "p", PROTO, schemaType="PROTOBUF") == 2
    serialized = (await got(client, "/schemas/ids/2", format="serialized"))["schema"]
    assert b"shop" in base64.b64decode(serialized)
    told = await got(client, "/subjects/p/versions/1", format="serialized")
    assert (told["schemaType"], told["schema"]) == ("PROTOBUF", serialized)
    assert await got(client, "/schemas/ids/2", format="resolved") == (422, 422)
    assert await refused(client, "POST", "/subjects/j/versions", {"schema": A}) == (409, 409)


async def test_normal_forms_of_one_schema_have_one_id(client: httpx.AsyncClient) -> None:
    one = '{"namespace":"s","name":"R","fields":[{"type":{"type":"int"},"name":"a"}],"type":"record"}'
    other = '{"type":"record","name":"s.R","fields":[{"name":"a","type":"int"}]}'
    path = "/subjects/x/versions?normalize=true"
    assert await post(client, path, one) == await post(client, path, other) == {"id": 1}
    assert (await post(client, "/subjects/x?normalize=true", one))["version"] == 1
    assert await refused(client, "POST", "/subjects/x", {"schema": one}) == (404, 40403)
    await client.put("/config/x", json={"normalize": True})
    assert (await post(client, "/subjects/x", one))["version"] == 1
    proto = {"schemaType": "PROTOBUF"}
    spaced = PROTO.replace(" int32", "\n// a number\n  int32")
    assert await post(client, "/subjects/p/versions?normalize=true", PROTO, **proto) == {"id": 2}
    assert await post(client, "/subjects/p/versions?normalize=true", spaced, **proto) == {"id": 2}
    keywords = ['{"type":"string","maxLength":3}', '{"maxLength":3,"type":"string"}']
    ids = [await post(client, "/subjects/j/versions?normalize=true", each, schemaType="JSON") for each in keywords]
    assert ids == [{"id": 3}, {"id": 3}]


async def test_modes(client: httpx.AsyncClient) -> None:
    assert await got(client, "/mode") == {"mode": "READWRITE"}
    assert await got(client, "/mode/x") == (404, 40409)
    assert await got(client, "/mode/x", defaultToGlobal=True) == {"mode": "READWRITE"}
    await register(client, "x", A)
    assert (await client.put("/mode/x", json={"mode": "READONLY"})).json() == {"mode": "READONLY"}
    new = {"schema": record(("a", "long"))}
    assert await refused(client, "POST", "/subjects/x/versions", new) == (422, 42205)
    assert await refused(client, "DELETE", "/subjects/x") == (422, 42205)
    assert await refused(client, "PUT", "/config/x", {"compatibility": "NONE"}) == (422, 42205)
    assert await register(client, "x", A) == 1  # it is there already
    assert (await client.delete("/mode/x")).json() == {"mode": "READONLY"}
    assert await refused(client, "DELETE", "/mode/x") == (404, 40409)
    assert await refused(client, "PUT", "/mode", {"mode": "FAST"}) == (422, 42204)
    assert await refused(client, "PUT", "/mode/x", {"mode": "IMPORT"}) == (422, 42205)
    assert (await client.put("/mode/x?force=true", json={"mode": "IMPORT"})).status_code == 200
    assert await refused(client, "POST", "/subjects/x/versions", new) == (422, 42205)
    assert await refused(client, "POST", "/subjects/x/versions", {**new, "id": 1}) == (422, 42207)
    assert await refused(client, "POST", "/subjects/x/versions", {**new, "id": 7, "version": 1}) == (422, 42207)
    assert await register(client, "x", new["schema"], id=41, version=5) == 41
    assert (await got(client, "/subjects/x/versions/latest"))["version"] == 5
    await client.put("/mode/x", json={"mode": "READWRITE"})
    assert await refused(client, "POST", "/subjects/x/versions", {"schema": '"int"', "id": 50}) == (422, 42205)
    assert await register(client, "y", '"int"') == 42


@pytest.mark.parametrize("name", ["a/b", "ünï cödé", "a%b", "a?b#c", "..", "a+b", "é" * 20])
async def test_a_subject_may_have_almost_any_name(client: httpx.AsyncClient, name: str) -> None:
    from urllib.parse import quote

    path = f"/subjects/{quote(name, safe='').replace('.', '%2E')}"
    assert (await client.post(f"{path}/versions", json={"schema": A})).json() == {"id": 1}
    assert await got(client, "/subjects") == [name]
    assert (await client.get(f"{path}/versions/1")).json()["subject"] == name
    assert (await client.get(f"/subjects/{quote(':.:' + name, safe='').replace('..', '%2E%2E')}/versions")).json() == [
        1
    ]


@pytest.mark.parametrize(
    "name", ["%00", "a%0Ab", "%7F", "x" * 1_001, "%3A.other%3Ax", "__GLOBAL", "_eventlib.highest-id", "%FF"]
)
async def test_what_is_no_subject_is_refused(client: httpx.AsyncClient, name: str) -> None:
    expected = (422, 42208) if name != "%FF" else (200, None)  # what is no UTF-8 is shown as a sign for that
    answer = await client.post(f"/subjects/{name}/versions", json={"schema": A})
    assert (answer.status_code, answer.json().get("error_code")) == expected


async def test_the_form_of_the_answer_is_the_one_asked_for(client: httpx.AsyncClient) -> None:
    v1 = "application/vnd.schemaregistry.v1+json"
    forms = {"*/*": v1, "application/json": "application/json", f"{v1}, application/json": v1, "text/html": v1}
    for accept, expected in forms.items():
        for path in ("/subjects", "/nothing"):
            assert (await client.get(path, headers={"accept": accept})).headers["content-type"] == expected


async def test_users_are_let_in_by_password_and_readers_only_read() -> None:
    users: dict[str, Any] = {"writers": '{"ann": "right"}', "readers": '{"bob": "left"}'}
    async with registry(**users) as client:
        for auth in (None, ("ann", "left"), ("ann", ""), ("", ""), ("eve", "right"), ("bob", "right")):
            answer = await client.get("/subjects", auth=auth)
            assert (answer.status_code, answer.json()["error_code"]) == (401, 401)
            assert answer.headers["www-authenticate"].startswith("Basic")
        for broken in ("Bearer x", "Basic", "Basic ???", "Basic gICA"):
            assert (await client.get("/subjects", headers={"authorization": broken})).status_code == 401
        ann, bob = ("ann", "right"), ("bob", "left")
        assert (await client.post("/subjects/x/versions", json={"schema": A}, auth=ann)).status_code == 200
        for method, path in (
            ("POST", "/subjects/x/versions"),
            ("POST", "/subjects/x/versions/"),
            ("DELETE", "/subjects/x"),
            ("PUT", "/config"),
        ):
            answer = await client.request(method, path, json={"schema": A}, auth=bob)
            assert (answer.status_code, answer.json()["error_code"]) == (403, 40301)
        assert (await client.get("/schemas/ids/1", auth=bob)).status_code == 200
        assert (await client.post("/subjects/x", json={"schema": A}, auth=bob)).status_code == 200
        path = "/compatibility/subjects/x/versions"
        assert (await client.post(path, json={"schema": A}, auth=bob)).json() == {"is_compatible": True}


async def test_what_an_application_has_kept_in_the_log_is_served_with_its_ids() -> None:
    """And what was registered here, the application finds in the log."""
    log = MemoryLog()
    one, other, third = (record(("a", "int"), name=each).replace(" ", "") for each in "XYZ")
    await Schemas(log).register([("t-X", Schema(one)), ("t-Y", Schema(other))])
    async with registry(log) as client:
        assert [await register(client, f"t-{name}", text) for name, text in (("Y", other), ("X", one))] == [2, 1]
        assert await register(client, "t-Z", third) == 3
        await Schemas(log).register([("t-W", Schema(record(name="W").replace(" ", "")))])  # it takes the claim for that
        assert await register(client, "u-X", record(name="V")) == 5
        assert await got(client, "/subjects") == ["t-W", "t-X", "t-Y", "t-Z", "u-X"]
    schemas = Schemas(log)
    await schemas.refresh()
    wanted = [("t-X", Schema(one)), ("t-Y", Schema(other)), ("t-Z", Schema(third))]
    assert await schemas.ids(wanted) == [1, 2, 3]


async def test_what_a_confluent_registry_has_written_is_understood() -> None:
    log = MemoryLog()
    async with registry(log) as client:
        await client.get("/")
    value = {"subject": "x", "version": 2, "id": 7, "schema": A, "deleted": False, "schemaTags": []}
    records: list[tuple[Any, Any]] = [
        ({"keytype": "NOOP", "magic": 0}, None),
        ({"keytype": "CONFIG", "subject": None, "magic": 0}, {"compatibilityLevel": "FULL"}),
        (
            {"keytype": "SCHEMA", "subject": "x", "version": 1, "magic": 1},
            {**value, "version": 1, "id": 6, "schema": AB},
        ),
        ({"keytype": "SCHEMA", "subject": "x", "version": 2, "magic": 1}, value),
        ({"keytype": "DELETE_SUBJECT", "subject": "x", "magic": 0}, {"subject": "x", "version": 1}),
    ]
    await log.append(
        [
            Record("_schemas", 0, -1, 0, json.dumps(key).encode(), None if each is None else json.dumps(each).encode())
            for key, each in records
        ]
    )
    async with registry(log) as client:
        assert await got(client, "/config") == {"compatibilityLevel": "FULL"}
        assert await got(client, "/subjects/x/versions") == [2]
        assert await got(client, "/subjects/x/versions", deleted=True) == [1, 2]
        assert await register(client, "y", '"int"') == 8
