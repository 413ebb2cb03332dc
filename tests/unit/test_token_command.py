"""Named tokens: made by a command, kept as hashes, read again when their file changes; and no address is open without identity."""

import json
import os
import stat
from pathlib import Path

import pytest
from pydantic import SecretStr

from eventlib.cli import run
from eventlib.errors import WiringError
from eventlib.ground import watched_file
from eventlib.http.serving import Listening
from eventlib.identity import Identity, IdentityOptions, Role, Unauthenticated, add_token

KEY = SecretStr("ab" * 16)


def made(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert run(["token", *arguments]) == 0
    return capsys.readouterr().out.strip()


def test_a_token_is_printed_once_and_kept_as_a_hash(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "tokens.json"
    text = made(capsys, "ci", "--role", "operator", "--role", "auditor", "--file", str(file))
    assert len(text) >= 43
    assert text not in file.read_text()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert json.loads(file.read_text())["tokens"][0]["roles"] == ["operator", "auditor"]
    assert run(["token", "ci", "--role", "shop", "--file", str(file)]) == 1
    assert "has a token 'ci' already" in capsys.readouterr().err
    assert run(["token", "bad name", "--role", "shop", "--file", str(file)]) == 1
    assert "field name" in capsys.readouterr().err


def test_without_a_file_the_entry_is_printed(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run(["token", "c-1", "--role", "customer", "--customer", "1", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["entry"]["customer"] == "1"
    monkeypatch.setenv("EVENTLIB_IDENTITY_TOKENS", json.dumps({"tokens": [found["entry"]]}))
    monkeypatch.setenv("EVENTLIB_IDENTITY_KEY", KEY.get_secret_value())
    assert Identity(IdentityOptions()).is_configured


async def test_a_changed_file_counts_and_a_broken_one_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(watched_file, "LOOK_EVERY_S", 0.0)
    file = tmp_path / "tokens.json"
    first, _ = add_token(file, "first", [Role.SHOP])
    identity = Identity(IdentityOptions(tokens_file=file, key=KEY))
    second, _ = add_token(file, "second", [Role.AUDITOR])
    assert (await identity.of_token(second)).by == "token:second"
    whole = file.read_text()
    file.write_text(whole[:-20])
    assert (await identity.of_token(first)).has(Role.SHOP)
    assert "the tokens of before stay valid" in caplog.text
    file.write_text(json.dumps({"tokens": json.loads(whole)["tokens"][1:]}))
    with pytest.raises(Unauthenticated):
        await identity.of_token(first)


@pytest.mark.skipif(os.name != "posix", reason="modes of files are POSIX's")
def test_a_file_that_others_may_write_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "tokens.json"
    add_token(file, "ci", [Role.SHOP])
    file.chmod(0o666)
    with pytest.raises(WiringError, match="chmod 600"):
        Identity(IdentityOptions(tokens_file=file, key=KEY))


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"issuer": "https://login.example.com"}, "issuer and audience go together"),
        ({"issuer": "http://login.example.com", "audience": "a", "key": KEY.get_secret_value()}, "has to be https"),
        ({"tokens": "{}"}, "a key is needed"),
        ({"tokens": "{}", "key": "abcd"}, "32 hex digits"),
        ({"tokens": "{}", "key": KEY.get_secret_value(), "insecure": "true"}, "insecure contradicts"),
        (
            {"certificate_header": "X-Subject", "key": KEY.get_secret_value()},
            "certificate_header and proxies go together",
        ),
    ],
)
def test_settings_that_contradict_each_other_are_named(
    settings: dict[str, str], reason: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, value in settings.items():
        monkeypatch.setenv(f"EVENTLIB_IDENTITY_{name.upper()}", value)
    assert run(["run", "--no-services", "--http", "0", "--app", "services:shop", "--log", "memory://"]) == 1
    assert reason in capsys.readouterr().err


@pytest.mark.parametrize("address", ["0.0.0.0:0", "[::]:0"])
def test_an_address_for_others_takes_an_identity(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(WiringError, match="no identity is configured: set EVENTLIB_IDENTITY_TOKENS_FILE"):
        Listening(address)
    monkeypatch.setenv("EVENTLIB_IDENTITY_INSECURE", "true")
    Listening("0.0.0.0:0").close()
