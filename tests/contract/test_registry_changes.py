"""What a registry lets be changed and by whom, and the log that it is all in."""

import json
from pathlib import Path
from typing import Any

import httpx
import pytest

from eventlib.codec.registry import RegistryOptions, Schema
from eventlib.codec.schema_ids import Schemas
from eventlib.identity import IdentityOptions, Role, add_token, identity_of
from eventlib.log.memory import MemoryLog
from eventlib.model.record import Record
from tests.contract.registry_client import AB, A, got, record, refused, register
from tests.contract.registry_servers import registry


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


SCHEMA = {"schema": json.dumps({"type": "record", "name": "A", "fields": []})}
READ, WRITE = ("GET", "/subjects", None), ("POST", "/subjects/a/versions", SCHEMA)
ASK = ("POST", "/subjects/a", SCHEMA)


@pytest.fixture
def tokens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[Role, str]:
    """A token of each role, in the file that the settings name."""
    path = tmp_path / "tokens.json"
    found = {role: add_token(path, role.value, [role])[0] for role in Role}
    monkeypatch.setenv("EVENTLIB_IDENTITY_TOKENS_FILE", str(path))
    monkeypatch.setenv("EVENTLIB_IDENTITY_KEY", "ab" * 16)
    return found


async def test_every_role_reads_and_operators_write(tokens: dict[Role, str]) -> None:
    async with registry() as client:
        assert (await client.get("/healthz")).status_code == (await client.get("/readyz")).status_code == 200
        for method, path, body in (READ, WRITE, ASK):
            assert (await client.request(method, path, json=body)).status_code == 401
        for role, token in sorted(tokens.items(), key=lambda item: item[0] is Role.ADMIN, reverse=True):
            for auth in (None, (role.value, token)):
                headers = {"Authorization": f"Bearer {token}"} if auth is None else {}
                answers = [
                    (await client.request(method, path, json=body, headers=headers, auth=auth)).status_code
                    for method, path, body in (WRITE, READ, ASK)
                ]
                assert answers == [200 if role in {Role.OPERATOR, Role.ADMIN} else 403, 200, 200], role


async def test_readers_write_by_no_path(tokens: dict[Role, str]) -> None:
    operator, reader = ("operator", tokens[Role.OPERATOR]), ("auditor", tokens[Role.AUDITOR])
    async with registry() as client:
        for auth in (None, ("operator", "guess"), ("operator", ""), ("", ""), ("eve", tokens[Role.OPERATOR])):
            answer = await client.get("/subjects", auth=auth)
            assert (answer.status_code, answer.json()["error_code"]) == (401, 401)
            assert answer.headers["www-authenticate"].startswith("Basic")
        for broken in ("Bearer x", "Basic", "Basic ???", "Basic gICA"):
            assert (await client.get("/subjects", headers={"authorization": broken})).status_code == 401
        assert (await client.post("/subjects/a/versions", json=SCHEMA, auth=operator)).status_code == 200
        for method, path in (
            ("POST", "/subjects/a/versions"),
            ("POST", "/subjects/a/versions/"),
            ("DELETE", "/subjects/a"),
            ("PUT", "/config"),
        ):
            answer = await client.request(method, path, json=SCHEMA, auth=reader)
            assert (answer.status_code, answer.json()["error_code"]) == (403, 40301)
        assert (await client.get("/schemas/ids/1", auth=reader)).status_code == 200
        path = "/compatibility/subjects/a/versions"
        assert (await client.post(path, json=SCHEMA, auth=reader)).json() == {"is_compatible": True}


async def test_a_token_has_one_name(tokens: dict[Role, str]) -> None:
    async with registry() as client:
        for auth in (("somebody", tokens[Role.ADMIN]), ("admin", tokens[Role.SHOP]), ("admin", "")):
            assert (await client.get("/subjects", auth=auth)).status_code == 401


@pytest.mark.usefixtures("tokens")
async def test_processes_of_the_installation_come_by_its_own_token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EVENTLIB_REGISTRY_USER", "internal")
    auth = RegistryOptions().registry_auth
    assert auth == ("internal", identity_of(IdentityOptions()).internal_token)
    async with registry() as client:
        assert (await client.post("/subjects/a/versions", json=SCHEMA, auth=auth)).status_code == 200
    monkeypatch.setenv("EVENTLIB_IDENTITY_KEY", "cd" * 16)  # another installation's
    async with registry() as client:
        assert (await client.get("/subjects", auth=auth)).status_code == 401
