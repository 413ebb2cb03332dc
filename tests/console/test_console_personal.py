"""Personal data in the console: text for operators, a mask for auditors, on every page that shows what is on the log."""

import re
from pathlib import Path

import httpx
import pytest

from eventlib import EventLog, Runtime, open_log
from eventlib.console.sessions import SessionIdentity
from eventlib.identity import Role, add_token
from eventlib.identity.options import identity_options
from eventlib.personal import MASKED
from eventlib.personal.secret_file import create_secret
from examples.letters import LetterSubmitted
from tests.console.browsers import running_console
from tests.integration.letters_app import FlakyPost, app
from tests.issuers import SECRET

NAME, STREET = "Grace Hopper", "1 Compiler Road"


async def every_page(client: httpx.AsyncClient, log: EventLog) -> dict[str, str]:
    """Return what a caller gets of each page, each topic, each record, and each moment."""
    places = [
        (name, partition, offset)
        for name, topic in (await log.port.topics()).items()
        for partition in range(topic.partitions)
        for offset in range(await log.port.start(name, partition), await log.port.end(name, partition))
    ]
    paths = [
        "/overview",
        "/sagas",
        "/saga/L1",
        "/saga/L1?view=tree",
        "/saga/L1?view=effects",
        "/parked",
        "/acts",
        "/compare?one=L1&other=L2",
    ]
    paths += [f"/moment/L1?at={number}" for number in range(1, 12)]
    paths += [f"/topics/{name}?partition={partition}" for name, partition, _ in places]
    paths += [f"/record/{name}/{partition}/{offset}?saga=L1" for name, partition, offset in places]
    paths += [
        re.sub("&amp;", "&", each) for each in re.findall(r'href="(/parked/[^"]+)"', (await client.get("/parked")).text)
    ]
    answers = {path: await client.get(path) for path in dict.fromkeys(paths)}
    assert {each.status_code for each in answers.values()} == {200}
    return {path: answer.text for path, answer in answers.items()}


async def test_auditors_see_a_mask_wherever_operators_see_a_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tokens = tmp_path / "tokens.json"
    texts = {role: add_token(tokens, role.value, [role])[0] for role in (Role.OPERATOR, Role.AUDITOR)}
    identity = SessionIdentity(identity_options(tokens_file=tokens, key=SECRET))
    create_secret(tmp_path / "master")
    monkeypatch.setenv("EVENTLIB_PERSONAL_MASTER", f"file:{tmp_path}/master")
    async with open_log(f"sqlite:///{tmp_path}/log.db", app) as log:
        async with Runtime(log, ports={"post": FlakyPost()}) as runtime:
            for letter_id, name, street in (("L1", NAME, STREET), ("L2", "Ada", "Mayfair")):
                await log.publish(
                    LetterSubmitted(letter_id=letter_id, customer_id="c", name=name, street=street, city="Arlington")
                )
            await runtime.idle()
        async with running_console(log, identity) as url:
            seen = {}
            for role, text in texts.items():
                bearer = {"authorization": f"Bearer {text}"}
                async with httpx.AsyncClient(base_url=url, headers=bearer, timeout=60) as client:
                    seen[role] = await every_page(client, log)
    plain = {path for path, text in seen[Role.OPERATOR].items() if NAME in text or STREET in text}
    assert {path.split("/")[1].partition("?")[0] for path in plain} >= {"saga", "moment", "topics", "record", "compare"}
    for path, text in seen[Role.AUDITOR].items():
        assert NAME not in text, path
        assert STREET not in text, path
        is_equal = path.startswith("/compare")  # two masks do not differ
        assert path not in plain or is_equal or MASKED in text, path
