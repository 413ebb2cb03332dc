"""What nobody should send: each answer is one of the registry's own, and none says that the server is at fault."""

import gzip
import json
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from eventlib.http.registry.app import LARGEST_BODY
from tests.contract.registry_client import record
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
KEYWORDS = """
    type name fields items values symbols size default aliases namespace logicalType precision scale record enum
    fixed array map int string null properties required additionalProperties $ref #/definitions/x definitions
    allOf anyOf oneOf not if then const pattern patternProperties dependencies minimum maximum multipleOf $id
    $schema prefixItems contains propertyNames bytes decimal union object number
"""
WORDS = st.sampled_from(KEYWORDS.split())
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


def chain(kind: str, length: int) -> str:
    """Return a schema of types each of which has a field of the next."""
    if kind == "PROTOBUF":
        messages = [f"message M{i} {{ M{i + 1} a = 1; }}" for i in range(length)]
        return f'syntax = "proto3"; {" ".join(messages)} message M{length} {{ int32 a = 1; }}'
    if kind == "JSON":
        of = {f"M{i}": {"properties": {"a": {"$ref": f"#/definitions/M{i + 1}"}}} for i in range(length)}
        return json.dumps({"$ref": "#/definitions/M0", "definitions": {**of, f"M{length}": {"type": "string"}}})
    found: Any = "int"
    for i in reversed(range(length)):
        found = {"type": "record", "name": f"M{i}", "fields": [{"name": "a", "type": found}]}
    return json.dumps(found)


@pytest.mark.parametrize("kind", ["AVRO", "JSON", "PROTOBUF"])
async def test_a_chain_of_types_that_could_not_be_compared_is_refused_at_once(kind: str) -> None:
    async with registry() as client:
        for length in (150, 190):
            body = {"schema": chain(kind, length), "schemaType": kind}
            for path in (
                "/subjects/x/versions",
                "/subjects/x/versions?normalize=true",
                "/compatibility/subjects/x/versions",
            ):
                answer = await client.post(path, json=body)
                assert (answer.status_code, answer.json()["error_code"]) == (422, INVALID), answer.text
        assert (await client.get("/subjects")).json() == []
        short = {"schema": chain(kind, 40), "schemaType": kind}
        assert (await client.post("/subjects/x/versions", json=short)).status_code == 200
        other = {**short, "schema": short["schema"].replace("int", "long").replace('"string"', '"integer"')}
        assert (await client.post("/subjects/x/versions", json=other)).status_code in {200, 409, 422}
        assert (await client.post("/compatibility/subjects/x/versions", json=other)).status_code in {200, 422}


@pytest.mark.parametrize("kind", ["AVRO", "JSON", "PROTOBUF"])
async def test_a_chain_of_references_is_bounded_too(kind: str) -> None:
    async with registry() as client:
        codes = list[int]()
        for i in range(90):
            name = {"AVRO": f"M{i - 1}", "JSON": f"m{i - 1}.json", "PROTOBUF": f"m{i - 1}.proto"}[kind]
            schema = {
                "AVRO": record(("a", f"M{i - 1}" if i else "int"), name=f"M{i}"),
                "JSON": json.dumps({"properties": {"a": {"$ref": name} if i else {"type": "string"}}}),
                "PROTOBUF": f'syntax = "proto3"; {f"""import "{name}";""" if i else ""} message M{i} {{ {f"M{i - 1}" if i else "int32"} a = 1; }}',
            }[kind]
            references = [{"name": name, "subject": f"s{i - 1}", "version": 1}] if i else []
            body = {"schema": schema, "schemaType": kind, "references": references}
            codes.append((await client.post(f"/subjects/s{i}/versions", json=body)).status_code)
            if codes[-1] != 200:
                break
        assert codes[-1] == 422
