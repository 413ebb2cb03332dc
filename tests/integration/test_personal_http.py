"""Personal fields over HTTP: text for those who need it, a mask for auditors, on timelines and on streams."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest
from fastapi import FastAPI
from pydantic import SecretStr

from eventlib import EventLog, Runtime, open_log
from eventlib.admin.api import create_admin
from eventlib.http import SagaApi, Shown
from eventlib.identity import Caller, Identity, IdentityOptions, Role, add_token, allow
from eventlib.personal import ERASED, MASKED
from eventlib.queries import SagaIndex
from examples.letters import LetterSubmitted, letters
from tests.handling import handle_all
from tests.integration.letters_app import FlakyPost, app

NAME, STREET = "Grace Hopper", "1 Compiler Road"


def letters_api(log: EventLog, identity: Identity) -> FastAPI:
    index = SagaIndex(log, letters)
    api = SagaApi(
        index, LetterSubmitted, name="letters", counted_as="letters", has_ended=lambda _: True, identity=identity
    )
    routes = api.routes("letters")

    @routes.get("/letters/{letter_id}/timeline")
    @allow(Role.SHOP, Role.AUDITOR)
    async def timeline(letter_id: str, caller: Caller) -> list[dict[str, object]]:
        _, found = await api.events.timeline(letter_id, Shown(personal=caller.sees_personal))
        return [event.model_dump(mode="json") for event in found]

    @routes.get("/letters/{letter_id}/events")
    @allow(Role.SHOP, Role.AUDITOR)
    async def events(letter_id: str, caller: Caller) -> object:
        shown = Shown(personal=caller.sees_personal)
        return await api.events.stream(letter_id, None, shown=shown)

    return api.include(routes)


async def test_auditors_see_a_mask(tmp_path: Path) -> None:
    tokens = tmp_path / "tokens.json"
    texts = {role: add_token(tokens, role.value, [role])[0] for role in (Role.SHOP, Role.AUDITOR)}
    identity = Identity(IdentityOptions(tokens_file=tokens, key=SecretStr("ab" * 16)))
    async with open_log("memory://", app) as log, Runtime(log, ports={"post": FlakyPost()}) as runtime:
        await log.publish(LetterSubmitted(letter_id="L1", customer_id="c", name=NAME, street=STREET, city="Arlington"))
        await runtime.idle()
        asgi = letters_api(log, identity)
        transport = httpx.ASGITransport(asgi)
        async with (
            asgi.router.lifespan_context(asgi),
            httpx.AsyncClient(transport=transport, base_url="http://localhost") as client,
        ):
            while (await client.get("/readyz")).status_code != 200:
                await asyncio.sleep(0.01)
            for role, name in ((Role.SHOP, NAME), (Role.AUDITOR, MASKED)):
                client.headers = httpx.Headers({"Authorization": f"Bearer {texts[role]}"})
                found = (await client.get("/letters/L1/timeline")).json()
                assert found[0]["data"]["name"] == name
                assert found[0]["data"]["customer_id"] == "c"
                streamed = (await client.get("/letters/L1/events")).text
                assert (NAME in streamed) is (role is Role.SHOP)
                assert (STREET in json.dumps(found) + streamed) is (role is Role.SHOP)


@pytest.fixture
async def parked(tmp_path: Path, master_key: Path) -> str:  # noqa: ARG001  the key has to be there
    """Return the URL of a log with a letter that no stamp is for, so that it is parked."""
    url = f"sqlite:///{tmp_path}/log.db"
    async with open_log(url, app) as log, Runtime(log, ports={"post": FlakyPost()}) as runtime:
        letter = LetterSubmitted(letter_id="L1", customer_id="c", name=NAME, street=STREET, city="X", kind="unknown")
        await log.publish(letter)
        await runtime.idle()
    return url


def written(directory: Path) -> bytes:
    return b"".join(path.read_bytes() for path in directory.rglob("*") if path.is_file())


@asynccontextmanager
async def admin_of(url: str, tokens: Path, *, personal: bool) -> AsyncIterator[httpx.AsyncClient]:
    identity = Identity(IdentityOptions(tokens_file=tokens, key=SecretStr("ab" * 16)))
    async with open_log(url, app, read_only=True, personal=personal) as log:
        transport = httpx.ASGITransport(create_admin(log, identity=identity))
        async with httpx.AsyncClient(transport=transport, base_url="http://admin") as client:
            yield client


async def test_an_operator_edits_a_parked_input_with_personal_fields(tmp_path: Path, parked: str) -> None:
    tokens, one = tmp_path / "tokens.json", "/parked/letters/letter/L1"
    operator, auditor = (
        {"Authorization": f"Bearer {add_token(tokens, role.value, [role])[0]}"}
        for role in (Role.OPERATOR, Role.AUDITOR)
    )
    async with admin_of(parked, tokens, personal=True) as admin:
        for headers, name in ((operator, NAME), (auditor, MASKED)):
            found = await admin.get(one, headers=headers)
            assert found.json()["inputs"][0]["data"]["name"] == name
            assert (STREET in found.text) is (headers is operator)
        hidden = await admin.post(f"{one}/edit", json={"set": {"name": MASKED}}, headers=operator)
        assert (hidden.status_code, hidden.json()["detail"][:6]) == (422, "name: ")
        changed = {"set": {"kind": "standard", "city": "Arlington"}, "reason": "a stamp"}
        assert (await admin.post(f"{one}/edit", json=changed, headers=operator)).status_code == 202
    post = FlakyPost()
    async with open_log(parked, app) as log:
        await handle_all(log, ports={"post": post})
    assert post.delivered == {"L1": f"{NAME}, {STREET}, Arlington"}
    assert not [each for each in (NAME, STREET, "Arlington") if each.encode() in written(tmp_path)]


async def test_a_process_without_the_right_refuses_the_edit(tmp_path: Path, parked: str) -> None:
    tokens = tmp_path / "tokens.json"
    headers = {"Authorization": f"Bearer {add_token(tokens, 'operator', [Role.OPERATOR])[0]}"}
    async with admin_of(parked, tokens, personal=False) as admin:
        for change in ({"set": {"kind": "standard"}}, {"set": {"name": "Ada"}}):
            refused = await admin.post("/parked/letters/letter/L1/edit", json=change, headers=headers)
            assert refused.status_code == 403
            assert refused.headers["content-type"] == "application/problem+json"
            assert "EVENTLIB_PERSONAL_MASTER" in refused.json()["detail"]
        assert (await admin.get("/parked/letters/none/L1", headers=headers)).status_code == 404


async def test_a_person_is_erased_only_as_the_preview_has_shown(tmp_path: Path, parked: str) -> None:
    tokens, forget = tmp_path / "tokens.json", "/subjects/c/forget"
    headers = {"Authorization": f"Bearer {add_token(tokens, 'operator', [Role.OPERATOR])[0]}"}
    async with admin_of(parked, tokens, personal=False) as admin:
        body = {"reason": "they asked"}
        shown = (await admin.post(forget, json=body | {"dry_run": True}, headers=headers)).json()
        assert (shown["done"], shown["has_key"]) == (False, True)
        body |= {"as_previewed": shown["as_previewed"]}
        async with open_log(parked, app) as log:
            await log.publish(LetterSubmitted(letter_id="L2", customer_id="c", name=NAME, street=STREET, city="X"))
        moved = await admin.post(forget, json=body, headers=headers)
        assert (moved.status_code, "the log has moved on" in moved.json()["detail"]) == (422, True)
        shown = (await admin.post(forget, json=body | {"dry_run": True}, headers=headers)).json()
        body |= {"as_previewed": shown["as_previewed"]}
        receipt = (await admin.post(forget, json=body, headers=headers)).json()
        assert (receipt["done"], receipt["by"]) == (True, "token:operator")
        assert receipt["records"] == shown["records"]
        assert sum(shown["records"].values()) == 3
    async with open_log(parked, app, read_only=True, personal=True) as log:
        records = [each for p in range(8) for each in await log.port.read("letter.requests", p, 0, 100)]
        names = {event.name for _, event in await log.decode_many(records) if isinstance(event, LetterSubmitted)}
    assert names == {ERASED}
