"""Personal fields over HTTP: text for those who need it, a mask for auditors, on timelines and on streams."""

import asyncio
import json
from pathlib import Path

import httpx
from fastapi import FastAPI
from pydantic import SecretStr

from eventlib import EventLog, Runtime, open_log
from eventlib.http import SagaApi, Shown
from eventlib.identity import Caller, Identity, IdentityOptions, Role, add_token, allow
from eventlib.personal import MASKED
from eventlib.queries import SagaIndex
from examples.letters import LetterSubmitted, letters
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
