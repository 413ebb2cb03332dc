"""Who acted is recorded with the act: the machine's user, or the principal of a token, and never what a caller writes."""

import asyncio
import json
from getpass import getuser
from pathlib import Path
from typing import Any

import httpx
import pytest

from eventlib import Publication, open_log
from eventlib.admin.api import create_admin
from eventlib.cli import run
from eventlib.identity import Identity, IdentityOptions, Role, add_token
from eventlib.index.log_index import LogIndex
from eventlib.operations.acts import ActIndex, ActLine, ActPage, in_lines
from eventlib.operations.acts import acts as acts_on
from eventlib.operations.parked_groups import fingerprint_of
from eventlib.publication import Signature
from eventlib.queries.parked import parkings
from tests.integration import parked_app

KEY = "ab" * 16
APP = ["--app", "tests.integration.parked_app:app"]


@pytest.fixture
def url(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A log with two parked keys, whose handler is mended."""
    url = f"sqlite:///{tmp_path}/log.db"
    monkeypatch.setenv(parked_app.BUG, "1")
    asyncio.run(parked(url))
    monkeypatch.delenv(parked_app.BUG)
    return url


async def parked(url: str) -> None:
    from tests.apps.small_shop import settle

    async with open_log(url, parked_app.app) as log:
        for name in ("a", "b"):
            await log.publish(parked_app.ExternalStates(name=name, number=1))
        await settle(log)


@pytest.fixture
def tokens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Tokens by name, in a file that the settings name."""
    path = tmp_path / "tokens.json"
    roles = {"ada": Role.OPERATOR, "eve": Role.AUDITOR}
    texts = {name: add_token(path, name, [role])[0] for name, role in roles.items()}
    monkeypatch.setenv("EVENTLIB_IDENTITY_TOKENS_FILE", str(path))
    monkeypatch.setenv("EVENTLIB_IDENTITY_KEY", KEY)
    return texts


def acts(url: str, capsys: pytest.CaptureFixture[str], *options: str) -> list[dict[str, Any]]:
    capsys.readouterr()
    assert run(["acts", *APP, "--log", url, "--json", *options]) == 0
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def retry(url: str, *options: str, key: str = "a") -> int:
    return run(["parked", "retry", "listener", key, *APP, "--log", url, "--wait", "0", *options])


def test_a_command_acts_as_the_user_of_the_machine(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    retry(url)
    retry(url, "--by", "ada: on call", key="b")
    found = acts(url, capsys)
    assert [(each["what"], each["service"], each["by"]) for each in found] == [
        ("retry", "ears", f"os:{getuser()}"),
        ("retry", "ears", f"os:{getuser()} (ada:on call)"),
    ]
    assert found[0]["about"] == "listener a"
    assert acts(url, capsys, "--by", "ON CALL") == found[1:]
    assert acts(url, capsys, "--since", "2199-01-01") == []


def test_a_command_acts_by_a_token(
    url: str, tokens: dict[str, str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("EVENTLIB_TOKEN", tokens["ada"])
    retry(url, "--by", "somebody-else")
    assert [each["by"] for each in acts(url, capsys)] == ["token:ada"]
    for token, reason in ((tokens["eve"], "takes the role operator"), ("x" * 40, "the token is unknown")):
        monkeypatch.setenv("EVENTLIB_TOKEN", token)
        assert retry(url) == 1
        complaint = capsys.readouterr().err
        assert reason in complaint
        assert token not in complaint
    assert len(acts(url, capsys)) == 1


def test_a_skip_is_an_act_with_its_reason(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    assert run(["tail", "told", *APP, "--log", url, "--json"]) == 0
    event_id = json.loads(capsys.readouterr().out.splitlines()[0])["id"]
    assert run(["reset", "ears", "--skip", event_id, *APP, "--log", url, "--yes", "--reason", "a test: really"]) == 0
    (found,) = acts(url, capsys)
    assert (found["what"], found["by"], found["reason"]) == ("skip", f"os:{getuser()}", "a test: really")
    assert found["about"] == f"event {event_id}"


async def test_the_admin_api_takes_the_name_from_the_token(
    url: str, tokens: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    async with open_log(url, parked_app.app) as log:
        app = create_admin(log, identity=Identity(IdentityOptions()))
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            for name, expected in (("eve", 403), ("ada", 202)):
                client.headers = httpx.Headers({"Authorization": f"Bearer {tokens[name]}"})
                assert (await client.get("/parked")).status_code == 200
                forged = await client.post("/parked/ears/listener/a/retry", json={"by": "the director"})
                assert forged.status_code == expected
    found = await asyncio.to_thread(acts, url, capsys)
    assert [each["by"] for each in found] == ["token:ada"]


def test_nothing_was_done(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["acts", *APP, "--log", url]) == 0
    assert "Nothing was done by hand." in capsys.readouterr().out


async def test_an_index_has_the_acts_that_are_read_from_the_log(url: str, tmp_path: Path) -> None:
    """Also those that are on several tasks, or were sent twice; and what a time, a name or a kind leaves out."""
    event, signature = parked_app.ExternalStates(name="c", number=2), Signature("os:ada", "by phone")
    sent = Publication(event, "once", signature=signature)
    async with (
        open_log(url, parked_app.app) as log,
        LogIndex(log, path=tmp_path / "index.db") as projection,
    ):
        await asyncio.to_thread(retry, url)
        told = [each for p in range(4) for each in await log.port.read("told", p, 0, 1)]
        skip = ["reset", "ears", "--skip", told[0].event_id, *APP, "--log", url, "--yes", "--reason", "a test"]
        assert await asyncio.to_thread(run, skip) == 0
        await log.publish_many([sent])
        await log.publish_many([sent])
        assert await projection.caught_up(30)
        index, every = ActIndex(log, projection), await acts_on(log)
        found = await index.page(0, "", "", 100)
        assert [each.what for each in every] == ["retry", "skip", "send"]
        assert found == ActPage([*map(ActLine, every[::-1])], 3, 3, ["retry", "send", "skip"])
        assert await index.page(0, "ada", "", 1) == ActPage([ActLine(every[2])], 1, 1, found.kinds)
        assert await index.page(0, "", "retry", 100) == ActPage([ActLine(every[0])], 1, 1, found.kinds)
        assert (await index.page(0, "", "", 1)).lines == [ActLine(every[2])]
        assert await index.page(every[2].at_ms + 1, "", "", 100) == ActPage([], 0, 0, [])


async def test_an_act_about_many_is_one_line_and_its_parts_share_a_name(
    url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    retry_all = ["parked", "retry", "--all", *APP, "--log", url, "--wait", "0", "--reason", "mended"]
    assert await asyncio.to_thread(run, retry_all) in {0, 1}
    found = await asyncio.to_thread(acts, url, capsys)
    assert [each["about"] for each in found] == ["listener a", "listener b"]
    assert found[0]["bulk"] == found[1]["bulk"] != ""
    async with open_log(url, parked_app.app) as log, LogIndex(log, path=tmp_path / "index.db") as projection:
        (cause,) = {fingerprint_of(each) for each in await parkings(log)}
        assert {each["cause"] for each in found} == {cause}
        (line,) = in_lines(await acts_on(log))
        assert (line.about, line.members) == (f"2 of cause {cause}", ["listener a", "listener b"])
        assert await projection.caught_up(30)
        page = await ActIndex(log, projection).page(0, "", "", 1)
        assert (page.count, page.line_count, [each.about for each in page.lines]) == (2, 1, [f"2 of cause {cause}"])
        assert sorted(page.lines[0].members) == line.members
        singly = await ActIndex(log, projection).page(0, "", "", 9, line.act.bulk)
        assert sorted(each.about for each in singly.lines) == line.members
    capsys.readouterr()
    assert await asyncio.to_thread(run, ["acts", *APP, "--log", url]) == 0
    assert f"2 of cause {cause}" in " ".join(capsys.readouterr().out.split())
