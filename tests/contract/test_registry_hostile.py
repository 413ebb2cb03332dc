"""What nobody should send: each answer is one of the registry's own, and none says that the server is at fault."""

import gzip
import json
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from eventlib.registry.server.app import LARGEST_BODY
from tests.contract.registry_servers import listening_registry, registry

DEEP = '{"type":"array","items":' * 2_000 + '"int"' + "}" * 2_000
LARGE = json.dumps({"type": "record", "name": "R", "fields": [], "doc": "x" * 1_100_000})
DOUBLING = ['{"type":"record","name":"L0","fields":[]}']
for _ in range(80):
    DOUBLING.append(
        f'{{"type":"record","name":"L{len(DOUBLING)}","fields":[{{"name":"a","type":{DOUBLING[-1]}}},'
        f'{{"name":"b","type":"L{len(DOUBLING) - 1}"}}]}}'
    )
INVALID = 42201


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        (b"", 400, 400),
        (b"{", 400, 400),
        (b"\xff\xfe", 400, 400),
        (b"[" * 100_000, 400, 400),
        (b"null", 422, 422),
        (b"[]", 422, 422),
        (b"{}", 422, 422),
        (b'{"schema":5}', 422, 422),
        (b'{"schema":"int","surprise":1}', 422, 422),
        (b'{"schema":"\\"int\\"","references":[{"name":"a"}]}', 422, 422),
        (b'{"schema":"\\"int\\"","references":[{"name":"a","subject":"b","version":1}]}', 422, INVALID),
        (b'{"schema":"\\"int\\"","schemaType":"THRIFT"}', 422, INVALID),
        (b'{"schema":"\\"int\\"","id":0}', 422, 422),
        (b'{"schema":"\\"int\\"","id":99999999999}', 422, 422),
        (b'{"schema":"\\"int\\"","ruleSet":{"domainRules":[]}}', 422, 42210),
        (b'{"schema":"int"}', 422, INVALID),
        (b'{"schema":"\\"\\ud800\\""}', 422, INVALID),
        (json.dumps({"schema": DEEP}).encode(), 422, INVALID),
        (json.dumps({"schema": DOUBLING[17]}).encode(), 422, INVALID),
        (json.dumps({"schema": DOUBLING[80]}).encode(), 422, INVALID),
        (json.dumps({"schema": '{"not":' * 2_000, "schemaType": "JSON"}).encode(), 422, INVALID),
        (json.dumps({"schema": "message A {" * 2_000, "schemaType": "PROTOBUF"}).encode(), 422, INVALID),
        (json.dumps({"schema": '{"$ref":"#/nowhere"}', "schemaType": "JSON"}).encode(), 422, INVALID),
        (json.dumps({"schema": LARGE}).encode(), 422, 42209),
        (b'{"schema":"' + b"x" * 5_000_000 + b'"}', 413, 413),
    ],
    ids=lambda value: repr(value)[:40],
)
async def test_bad_bodies_are_refused_in_the_registrys_own_form(body: bytes, status: int, code: int) -> None:
    async with registry() as client:
        for path in ("/subjects/x/versions", "/compatibility/subjects/x/versions"):
            answer = await client.post(path, content=body)
            if (code, path) == (42209, "/compatibility/subjects/x/versions"):
                continue  # only what is kept has to fit
            assert (answer.status_code, answer.json()["error_code"]) == (status, code), answer.text
        assert (await client.get("/subjects")).json() == []


async def test_a_body_that_hides_its_length_is_cut_off() -> None:
    async def chunks() -> Any:
        for _ in range(LARGEST_BODY // 100_000 + 2):
            yield b"x" * 100_000

    async with registry() as client:
        answer = await client.post("/subjects/x/versions", content=chunks())
        assert (answer.status_code, answer.json()["error_code"]) == (413, 413)
        answer = await client.post("/subjects/x/versions", content=b"{}", headers={"content-length": "-1"})
        assert answer.status_code == 413


async def test_the_kind_of_a_body_is_checked() -> None:
    async with registry() as client:
        headers = {"content-type": "text/plain"}
        answer = await client.post("/subjects/x/versions", content=b'{"schema":"\\"int\\""}', headers=headers)
        assert (answer.status_code, answer.json()["error_code"]) == (415, 415)
        packed = gzip.compress(b'{"schema":"\\"int\\""}')
        answer = await client.post("/subjects/x/versions", content=packed, headers={"content-encoding": "gzip"})
        assert (answer.status_code, answer.json()["error_code"]) == (415, 415)
        assert "Content-Encoding: gzip" in answer.json()["message"]


SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5)
WORDS = st.sampled_from(
    [
        "type",
        "name",
        "fields",
        "items",
        "values",
        "symbols",
        "size",
        "default",
        "aliases",
        "namespace",
        "logicalType",
        "precision",
        "scale",
        "record",
        "enum",
        "fixed",
        "array",
        "map",
        "int",
        "string",
        "null",
        "properties",
        "required",
        "additionalProperties",
        "$ref",
        "#/definitions/x",
        "definitions",
        "allOf",
        "anyOf",
        "oneOf",
        "not",
        "if",
        "then",
        "enum",
        "const",
        "pattern",
        "patternProperties",
        "dependencies",
        "minimum",
        "maximum",
        "multipleOf",
        "$id",
        "$schema",
        "prefixItems",
        "contains",
        "propertyNames",
        "bytes",
        "decimal",
        "union",
        "object",
        "number",
    ]
)
DOCUMENTS = st.recursive(
    SCALARS | WORDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner | WORDS, max_size=4),
    max_leaves=12,
)


@settings(max_examples=12, deadline=None, derandomize=True, database=None, suppress_health_check=[*HealthCheck])
@given(documents=st.lists(st.tuples(st.sampled_from(["AVRO", "JSON"]), DOCUMENTS), min_size=10, max_size=10))
async def test_no_document_is_the_servers_fault(documents: list[tuple[str, Any]]) -> None:
    async with registry(compatibility="FULL_TRANSITIVE") as client:
        for kind, document in documents:
            body = {"schema": json.dumps(document), "schemaType": kind}
            for path in (f"/subjects/{kind}/versions", f"/subjects/{kind}/versions?normalize=true"):
                answer = await client.post(path, json=body)
                assert answer.status_code in {200, 409, 422}, (document, answer.text)


def test_no_request_is_the_servers_fault() -> None:
    """Schemathesis makes requests from the server's own OpenAPI document, right ones and wrong ones."""
    import schemathesis
    from schemathesis.checks import CHECKS

    with listening_registry() as url:
        api = schemathesis.openapi.from_url(f"{url}/openapi.json")
        checks = [CHECKS.get_one("not_a_server_error")]

        @settings(
            max_examples=8,
            deadline=None,
            derandomize=True,
            database=None,
            phases=[Phase.generate],
            suppress_health_check=[*HealthCheck],
        )
        @given(data=st.data())
        def calls(data: st.DataObject) -> None:
            for operation in api.get_all_operations():
                case = data.draw(operation.ok().as_strategy())  # type: ignore[union-attr]  # the document is right
                answer = case.call_and_validate(checks=checks)
                assert "error_code" in answer.json() if answer.status_code >= 400 else True

        calls()
        assert httpx.get(f"{url}/").json() == {}
