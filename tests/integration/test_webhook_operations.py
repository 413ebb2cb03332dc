"""What operators declare, see and do: wrong declarations, spans, figures, rights and commands."""

import asyncio
import json
import re
from contextlib import AsyncExitStack
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from eventlib import WiringError, open_log
from eventlib.cli._common.metrics import trace, webhooks_snapshot
from eventlib.eventlog import CALLER
from eventlib.webhooks.running import WebhookRunner
from tests.commands import ended, said
from tests.integration.hooking import declared, delivering, publish, refusing, until_status
from tests.integration.webhook_app import APP
from tests.waiting import until
from tests.webhook_receiver import receiving

pytestmark = pytest.mark.usefixtures("hook_secret")


@pytest.mark.parametrize(
    ("lines", "sentence"),
    [
        ('url = "http://example.org/"', "events would travel unencrypted: give https://, or plaintext = true"),
        ('url = "ftp://example.org/"', "give https://HOST/PATH"),
        ('url = "https://user:secret@example.org/"', "leave the user and the #fragment out"),
        (
            'url = "https://example.org/"\nevents = ["Counted"]\nsecrets = ["whsec_abc"]',
            "name it as env:NAME or file:PATH",
        ),
        ('url = "https://example.org/"\nsecret = "x"', "field secret: Extra inputs are not permitted"),
        ('url = "https://example.org/"\nevents = ["Nothing"]', "events: Nothing is no event of counting"),
        ('url = "https://example.org/"\nwhere = {colour = "red"}', "none of its events has a field colour"),
        (
            'url = "https://example.org/"\nwhere = {by = "Ada"}',
            "where: by is personal, and masked without personal = true",
        ),
        ('url = "https://example.org/"\nsecrets = ["env:NOT_THERE"]', "its secret env:NOT_THERE is not set"),
        ('url = "https://example.org/"\nsecrets = ["env:SHORT"]', "has 24 to 64 bytes: this one has 3"),
    ],
)
async def test_what_is_declared_wrongly_is_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lines: str, sentence: str
) -> None:
    monkeypatch.setenv("SHORT", "whsec_YWJj")
    always = {"events": 'events = ["Counted"]', "secrets": 'secrets = ["env:HOOK_SECRET"]'}
    text = "\n".join([lines, *(line for name, line in always.items() if f"{name} =" not in lines)])
    path = tmp_path / "hooks.toml"
    path.write_text(f"[subscribers.one]\n{text}\n")
    async with open_log("memory://", APP) as log:
        with pytest.raises(WiringError, match=re.escape(sentence)) as error:
            WebhookRunner(log, path)
    assert "secret@" not in str(error.value)
    assert "YWJj" not in str(error.value)


async def test_a_request_is_a_span_in_the_trace_of_its_event(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("OTEL_TRACES_EXPORTER", "console")
    async with AsyncExitStack() as stack:
        log = await stack.enter_async_context(open_log("memory://", APP))
        receiver = await stack.enter_async_context(receiving())
        path = declared(tmp_path / "hooks.toml", one=f'"{receiver.url}"\nbegin = "start"')
        token = CALLER.set("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
        await publish(log, range(1), "a")
        CALLER.reset(token)
        recorder = trace(stack, log, "memory://")
        assert recorder is not None
        async with delivering(log, path, recorder.delivered):
            await until_status(log, path, lag=0)  # the answer has come, too
    (header,) = [each.headers["traceparent"] for each in receiver.taken]
    assert header.startswith("00-0af7651916cd43dd8448eb211c80319c-")
    assert re.search(
        "trace 0af7651916cd43dd8448eb211c80319c.*\n  deliver one .webhooks. Counted", capsys.readouterr().err
    )


async def test_its_figures_are_served(tmp_path: Path) -> None:
    async with open_log("memory://", APP) as log, receiving(refusing("a", 0, (500, {}, b""))) as receiver:
        path = declared(
            tmp_path / "hooks.toml", one=f'"{receiver.url}"\nattempts = 1\nbegin = "start"', other=f'"{receiver.url}"'
        )
        await publish(log, range(2), "ab")
        async with delivering(log, path) as runner:
            await until_status(log, path, failed=1, waiting=1, lag=0)
            seen = (await webhooks_snapshot(runner, log)).values
    assert seen["eventlib.webhook.attempts"] == {("one", "delivered"): 2, ("one", "failed"): 1}
    assert seen["eventlib.webhook.failed"]["one",] == 1
    assert seen["eventlib.webhook.waiting"]["one",] == 1
    assert seen["eventlib.webhook.disabled"]["one",] == 0
    assert seen["eventlib.webhook.lag"]["one",] == 0


@pytest.mark.usefixtures("master_key")
async def test_commands_work_beside_a_process_or_without_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log_url = f"sqlite:///{tmp_path}/log.db"
    async with open_log(log_url, APP) as log, receiving(refusing("a", 0, (410, {}, b""))) as receiver:
        path = declared(tmp_path / "hooks.toml", one=f'"{receiver.url}"\nbegin = "start"')
        monkeypatch.setenv("EVENTLIB_WEBHOOKS", str(path))

        async def command(*words: str) -> CompletedProcess[str]:
            options = ("--app", "tests.integration.webhook_app:APP", "--log", log_url)
            return await asyncio.to_thread(ended, "webhook", *words, *options)

        await publish(log, range(2), "a")
        assert (await command("status")).stdout == "one has not begun.\n"
        async with delivering(log, path):
            await until_status(log, path, disabled="its endpoint answered 410 Gone")
        (told,) = json.loads(f"[{(await command('status', '--json')).stdout}]")
        assert (told["name"], told["waiting"], told["disabled"]) == ("one", 1, "its endpoint answered 410 Gone")
        held = told["first"][0]
        place = f"{held['topic']}/{held['partition']}/{held['offset']}"
        assert "It is disabled: its endpoint answered 410 Gone." in (await command("status")).stdout
        assert f"{place} will not be delivered to one" in (await command("discard", "one", place)).stdout
        assert "gets events again, from where it was" in (await command("enable", "one")).stdout
        assert "subscriber one is not disabled" in (await command("enable", "one")).stderr
        assert "there is no subscriber 'two' in" in (await command("retry", "two")).stderr
        assert (
            "offsets differ from partition to partition" in (await command("replay", "one", "--from", "7", "-y")).stderr
        )
        async with delivering(log, path):
            await until(lambda: receiver.numbers("a") == [1])


def test_a_file_is_needed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("EVENTLIB_WEBHOOKS", raising=False)
    assert "name the file of subscribers" in ended("webhook", "status").stderr
    assert "there is no file of subscribers" in ended("webhook", "status", "--subscribers", str(tmp_path / "x")).stderr


def test_the_command_prints_the_rights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EVENTLIB_KAFKA_PREFIX", "p.")
    path = declared(tmp_path / "hooks.toml", one='"https://example.org/"')
    printed = said("webhook", "rights", "--subscribers", str(path), "--app", "tests.integration.webhook_app:APP")
    assert "--create --if-not-exists --topic p._webhooks" in printed
    assert "--operation Read --operation Describe --operation DescribeConfigs --topic p.counts.made" in printed
