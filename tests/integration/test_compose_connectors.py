"""Sinks and webhooks as Compose runs them: valid by its published schema, with no rights, and each by its command."""

import asyncio
import os
import subprocess
import sys
import tomllib
from base64 import b64encode
from contextlib import suppress
from pathlib import Path
from secrets import token_bytes
from time import monotonic
from typing import Any

import httpx
import pytest
import yaml
from tenacity import Retrying, stop_after_delay, wait_fixed

from eventlib import open_log
from tests.commands import ended, said
from tests.integration.outbox_app import APP
from tests.ports import free_port
from tests.unit.test_compose_files import faults_of

SUBSCRIBERS = """[subscribers.billing]
url = "https://example.com/$HOOK"
events = ["Counted"]
secrets = ["env:BILLING"]
"""
OWN = ("--app", "tests.integration.outbox_app:APP")


@pytest.fixture
def exported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    monkeypatch.setenv("EVENTLIB_KAFKA_APPLICATION", "counting")
    (tmp_path / "webhooks.toml").write_text(SUBSCRIBERS)
    named = ("--sink", "tests.integration.sink_app:totals", "--outbox", "tests.integration.sink_app:outbox")
    subscribers = ("--subscribers", str(tmp_path / "webhooks.toml"))
    said("export", "compose", *OWN, *named, *subscribers, "--out", str(tmp_path))
    found: dict[str, Any] = yaml.safe_load((tmp_path / "connectors.yaml").read_text())
    return found


def test_the_file_is_valid_by_the_published_schema(exported: dict[str, Any]) -> None:
    assert faults_of(exported) == []


def test_each_runs_by_its_command_with_what_it_reads(exported: dict[str, Any]) -> None:
    sink, webhooks = exported["services"]["totals-sink"], exported["services"]["webhooks"]
    assert sink["command"] == ["eventlib", "sink", "run", "tests.integration.sink_app:totals"]
    assert sink["env_file"] == ["settings.env", "totals-sink.env"]
    relay = exported["services"]["answers-relay"]
    assert relay["command"] == ["eventlib", "outbox", "relay", "--name", "answers"]
    assert relay["env_file"] == ["settings.env", "answers-relay.env"]
    assert webhooks["command"] == ["eventlib", "webhook", "run"]
    (config,) = webhooks["configs"]
    assert config["target"] == webhooks["environment"]["EVENTLIB_WEBHOOKS"]
    written = exported["configs"][config["source"]]["content"]
    assert "$$HOOK" in written, "Compose would put a variable in"
    assert tomllib.loads(written.replace("$$", "$")) == tomllib.loads(SUBSCRIBERS)
    for each in (sink, relay, webhooks):
        assert each["image"] == "counting-services"
        assert (each["read_only"], each["cap_drop"]) == (True, ["ALL"])
        assert "ports" not in each


def test_without_sinks_and_subscribers_there_is_nothing_to_write() -> None:
    done = ended("export", "compose", *OWN)
    assert (done.returncode, done.stdout) == (1, "")
    assert "name some, with --sink or --subscribers" in done.stderr


def test_it_is_healthy_with_what_the_file_gives_it_once_the_log_has_its_topics(
    exported: dict[str, Any], tmp_path: Path
) -> None:
    webhooks = exported["services"]["webhooks"]
    (tmp_path / "mounted.toml").write_text(exported["configs"]["webhooks"]["content"].replace("$$", "$"))
    port = str(free_port())
    given = {
        **{key: value.replace("9464", port) for key, value in webhooks["environment"].items()},
        "EVENTLIB_WEBHOOKS": str(tmp_path / "mounted.toml"),
        "EVENTLIB_APP": OWN[1],
        "EVENTLIB_LOG": f"sqlite:///{tmp_path / 'log.db'}",
        "BILLING": f"whsec_{b64encode(token_bytes(24)).decode()}",
    }
    command = [sys.executable, "-m", *webhooks["command"]]
    _, _, *check = (part.replace("9464", port) for part in webhooks["healthcheck"]["test"])
    with subprocess.Popen(command, env={**os.environ, **given}) as process:
        try:
            answers = first_answers(f"http://127.0.0.1:{port}/readyz")
            assert {status for status, _ in answers} == {503}, answers
            asyncio.run(create(given["EVENTLIB_LOG"]))
            for attempt in Retrying(wait=wait_fixed(0.2), stop=stop_after_delay(60), reraise=True):
                with attempt:
                    subprocess.run([sys.executable, *check], check=True, capture_output=True)
        finally:
            process.terminate()
    assert process.returncode == 0


def first_answers(url: str) -> list[tuple[int, str]]:
    """Ask without a pause, from the first moment that something listens, until it says what it waits for."""
    deadline, answers = monotonic() + 60, list[tuple[int, str]]()
    with httpx.Client() as client:
        while monotonic() < deadline and not any("no topic" in text for _, text in answers):
            with suppress(httpx.ConnectError):
                answer = client.get(url)
                answers.append((answer.status_code, answer.text))
    return answers


async def create(log_url: str) -> None:
    async with open_log(log_url, APP):
        pass
