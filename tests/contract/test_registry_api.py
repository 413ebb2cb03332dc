"""The registry's REST API, as Confluent's documentation has it: answers, codes, levels, formats and names."""

import base64
import importlib
import json

import httpx
import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorProto

from eventlib.registry.parsing.protobuf import protobuf_files
from tests.contract.registry_client import AB, PROTO, A, got, post, record, refused, register


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
    assert (await post(client, "/subjects/x", one))["version"] == 1
    await client.put("/config/x", json={"normalize": True})
    assert (await post(client, "/subjects/x", one))["version"] == 1
    proto = {"schemaType": "PROTOBUF"}
    spaced = PROTO.replace(" int32", "\n// a number\n  int32")
    assert await post(client, "/subjects/p/versions?normalize=true", PROTO, **proto) == {"id": 2}
    assert await post(client, "/subjects/p/versions?normalize=true", spaced, **proto) == {"id": 2}
    keywords = ['{"type":"string","maxLength":3}', '{"maxLength":3,"type":"string"}']
    ids = [await post(client, "/subjects/j/versions?normalize=true", each, schemaType="JSON") for each in keywords]
    assert ids == [{"id": 3}, {"id": 3}]


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


SPELLINGS = {
    "AVRO": [
        '{"namespace":"s","name":"R","fields":[{"type":{"type":"int"},"name":"a"}],"type":"record"}',
        '{"type":"record","name":"R","namespace":"s","fields":[{"name":"a","type":"int"}]}',
        '{ "type": "record", "name": "s.R", "fields": [ { "name": "a", "type": "int" } ] }',
    ],
    "JSON": [
        '{"type":"object","properties":{"a":{"type":"number","minimum":1}},"additionalProperties":false}',
        '{"additionalProperties":false,"properties":{"a":{"minimum":1.0,"type":"number"}},"type":"object"}',
        '{"type":"object","properties":{"\\u0061":{"type":"number","minimum":1}},"additionalProperties":false}',
    ],
    "PROTOBUF": [
        'syntax = "proto3"; package s; message R { int32 a = 1; }',
        "syntax = 'proto3';\npackage s;\n\n// one\nmessage R {\n  int32 a = 1; /* its number */\n}\n",
        'syntax = "proto3";\npackage s;\nmessage R { int32 a = 0x1; }',
    ],
}
OTHERS = {
    "AVRO": '{"type":"record","name":"R","namespace":"s","fields":[{"name":"a","type":"int","doc":"more"}]}',
    "JSON": '{"type":"object","properties":{"a":{"type":"number","minimum":2}},"additionalProperties":false}',
    "PROTOBUF": 'syntax = "proto3"; package s; message R { int32 a = 2; }',
}


@pytest.mark.parametrize("kind", SPELLINGS)
@pytest.mark.parametrize("first", [0, 1, 2])
async def test_every_spelling_of_a_schema_is_the_one_that_is_registered(
    client: httpx.AsyncClient, kind: str, first: int
) -> None:
    spellings, more = SPELLINGS[kind], {"schemaType": kind}
    registered = await register(client, "x", spellings[first], **more)
    kept = await got(client, "/subjects/x/versions/1")
    for each in spellings:
        assert (await post(client, "/subjects/x", each, **more))["version"] == 1
        assert await register(client, "x", each, **more) == registered
        assert await register(client, "y", each, **more) == registered
    assert await got(client, "/subjects/x/versions") == await got(client, "/subjects/y/versions") == [1]
    assert await got(client, "/subjects/x/versions/1") == kept
    assert (await got(client, "/subjects/y/versions/1"))["schema"] == kept["schema"]
    assert (await post(client, "/subjects/x", OTHERS[kind], **more))["error_code"] == 40403
    await client.put("/config/z", json={"compatibility": "NONE"})
    assert await register(client, "z", OTHERS[kind], **more) != registered
    assert (await client.delete("/subjects/x")).status_code == 200
    assert (await post(client, "/subjects/x?deleted=true", spellings[first - 1], **more))["version"] == 1
    assert (await post(client, "/subjects/x", spellings[first - 1], **more))["error_code"] == 40401


@pytest.mark.parametrize(
    ("imported", "field"),
    [
        ("confluent/meta.proto", 'string a = 1 [(confluent.field_meta).doc = "x"]'),
        ("confluent/type/decimal.proto", "confluent.type.Decimal a = 1"),
        ("confluent/types/decimal.proto", "confluent.type.Decimal a = 1"),
        ("confluent/type/variant.proto", "confluent.type.Variant a = 1"),
        ("google/type/date.proto", "google.type.Date a = 1"),
        ("google/type/money.proto", "google.type.Money a = 1"),
        ("google/type/timeofday.proto", "google.type.TimeOfDay a = 1"),
        ("google/protobuf/timestamp.proto", "google.protobuf.Timestamp a = 1"),
    ],
)
async def test_imports_that_clients_expect_are_built_in(client: httpx.AsyncClient, imported: str, field: str) -> None:
    proto = f'syntax = "proto3"; import "{imported}"; message M {{ {field}; }}'
    assert await register(client, "x", proto, schemaType="PROTOBUF") == 1
    assert (await got(client, "/subjects/x/versions/1", format="serialized"))["id"] == 1


async def test_an_import_that_only_happens_to_be_installed_is_not_built_in(client: httpx.AsyncClient) -> None:
    proto = 'syntax = "proto3"; import "google/api/http.proto"; message M { google.api.Http a = 1; }'
    answer = await client.post("/subjects/x/versions", json={"schema": proto, "schemaType": "PROTOBUF"})
    assert (answer.status_code, answer.json()["error_code"]) == (422, 42201)


@pytest.mark.parametrize("name", ["meta", "type/decimal", "type/variant", "types/decimal"])
def test_the_built_in_imports_are_those_of_a_client(name: str) -> None:
    module = importlib.import_module(f"confluent_kafka.schema_registry.confluent.{name.replace('/', '.')}_pb2")
    theirs = FileDescriptorProto()
    module.DESCRIPTOR.CopyToProto(theirs)
    ours = protobuf_files(f'syntax = "proto3"; import "confluent/{name}.proto"; message M {{}}', {}).imports()
    found = {each.name: each for each in ours}[f"confluent/{name}.proto"]
    theirs.ClearField("options")  # where their Go code is
    assert found == theirs
