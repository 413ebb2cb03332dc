"""The registry with an identity: every role reads, operators write, its own users count beside them, and a client of theirs comes in."""

import json
from pathlib import Path

import pytest

from eventlib.codec.registry import RegistryOptions
from eventlib.identity import IdentityOptions, Role, add_token, identity_of
from tests.contract.registry_servers import registry

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


async def test_a_token_has_one_name(tokens: dict[Role, str]) -> None:
    async with registry() as client:
        for auth in (("somebody", tokens[Role.ADMIN]), ("admin", tokens[Role.SHOP]), ("admin", "")):
            assert (await client.get("/subjects", auth=auth)).status_code == 401


@pytest.mark.usefixtures("tokens")
async def test_users_of_its_own_count_beside_the_tokens() -> None:
    async with registry(writers='{"ann": "her password"}') as client:
        assert (await client.post("/subjects/a/versions", json=SCHEMA, auth=("ann", "her password"))).status_code == 200
        assert (await client.get("/subjects", auth=("ann", "another"))).status_code == 401


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
