"""Events reach subscribers: signed, at least once, those of a key in order, whatever the receiver does."""

import asyncio
import json
import re
import ssl
import sys
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from importlib.abc import MetaPathFinder
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from eventlib import EventLog, WiringError, open_log
from eventlib.cli._common.metrics import trace, webhooks_snapshot
from eventlib.errors import LogUnavailable
from eventlib.eventlog import CALLER
from eventlib.log.base import Claim
from eventlib.log.record import Record
from eventlib.personal.secret_file import create_secret
from eventlib.webhooks import delivering as delivering_module
from eventlib.webhooks.acts import SubscriberStatus, discard, enable, replay, retry, status_of
from eventlib.webhooks.endpoint import trust
from eventlib.webhooks.running import WebhookRunner
from eventlib.webhooks.sending import Observe
from eventlib.webhooks.subscribers import read_subscribers
from tests.commands import ended, said
from tests.contract.registry_servers import self_signed
from tests.integration.webhook_app import APP, Counted
from tests.webhook_receiver import SECRET, Decide, Delivered, Reply, receiving

LONGEST_S = 60
KEYS = "abcdefgh"


@pytest.fixture(autouse=True)
def secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOOK_SECRET", SECRET)


def declared(path: Path, **subscribers: str) -> Path:
    """Write a file of subscribers: a URL, and further lines."""
    always = (
        'events = ["Counted"]\nsecrets = ["env:HOOK_SECRET"]\nprivate = true\nretry_s = 0.01\nlongest_retry_s = 0.05'
    )
    tables = [f"[subscribers.{name}]\nurl = {lines}\n{always}\n" for name, lines in subscribers.items()]
    path.write_text("".join(tables))
    return path


@asynccontextmanager
async def delivering(log: EventLog, path: Path, observe: Observe = lambda _: None) -> AsyncIterator[WebhookRunner]:
    runner = WebhookRunner(log, path, observe=observe)
    task = asyncio.create_task(runner.run())
    try:
        yield runner
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def until(done: Callable[[], bool]) -> None:
    deadline = time.monotonic() + LONGEST_S
    while not done():
        assert time.monotonic() < deadline
        await asyncio.sleep(0.01)


async def publish(log: EventLog, numbers: range, keys: str = KEYS) -> None:
    await log.publish_many([Counted(counter=each, number=number) for number in numbers for each in keys])


async def status(log: EventLog, path: Path, name: str = "one") -> SubscriberStatus:
    return await status_of(log, read_subscribers(path)[name], 20)


async def until_status(log: EventLog, path: Path, **expected: object) -> SubscriberStatus:
    deadline = time.monotonic() + LONGEST_S
    while True:
        found = await status(log, path)
        if all(getattr(found, name) == value for name, value in expected.items()):
            return found
        assert time.monotonic() < deadline, found
        await asyncio.sleep(0.02)


@pytest.mark.parametrize("mode", ["structured", "binary", "batch"])
async def test_events_arrive_signed_and_in_order(tmp_path: Path, mode: str) -> None:
    async with open_log("memory://", APP) as log, receiving() as receiver:
        path = declared(tmp_path / "hooks.toml", one=f'"{receiver.url}"\nmode = "{mode}"\nbegin = "start"')
        await publish(log, range(5))
        async with delivering(log, path):
            await until(lambda: len(receiver.numbers("h")) == 5)
            await until_status(log, path, lag=0)
    assert {key: receiver.numbers(key) for key in KEYS} == {key: [0, 1, 2, 3, 4] for key in KEYS}
    event = receiver.taken[0].events[0]
    assert event.get_type() == "Counted"
    assert event.get_source() == "/counting/outside"
    assert event.get_dataschema() == "urn:eventlib:counting:Counted:1"
    assert sum(len(each.events) for each in receiver.taken) == 40
    assert (len(receiver.taken) == 40) == (mode != "batch")


class Searches(MetaPathFinder):
    """Notes which modules are looked for."""

    def __init__(self) -> None:
        self.names = list[str]()

    def find_spec(self, name: str, *_: object) -> None:
        self.names.append(name)


async def test_a_request_searches_for_no_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    searches = Searches()
    async with open_log("memory://", APP) as log, receiving() as receiver:
        path = declared(tmp_path / "hooks.toml", one=f'"{receiver.url}"\nbegin = "start"')
        async with delivering(log, path):
            await publish(log, range(1))
            await until(lambda: len(receiver.taken) == len(KEYS))
            monkeypatch.setattr(sys, "meta_path", [searches, *sys.meta_path])
            await publish(log, range(1, 3))
            await until(lambda: len(receiver.taken) == 3 * len(KEYS))
    assert "sniffio" not in searches.names


def refusing(key: str, number: int, reply: Reply) -> Callable[[Delivered], Reply]:
    """Return what answers one event so, and takes all others."""

    def decide(each: Delivered) -> Reply:
        data = each.event.get_data()
        return reply if (data["counter"], data["number"]) == (key, number) else (204, {}, b"")

    return decide


async def test_a_delivery_that_fails_holds_its_key_until_an_operator_retries_it(tmp_path: Path) -> None:
    async with open_log("memory://", APP) as log, receiving(refusing("a", 1, (500, {}, b"no\x1b[1m room"))) as receiver:
        path = declared(tmp_path / "hooks.toml", one=f'"{receiver.url}"\nattempts = 3\nbegin = "start"')
        await publish(log, range(4), "ab")
        async with delivering(log, path):
            found = await until_status(log, path, failed=1, waiting=2, lag=0)
            assert (receiver.numbers("a"), receiver.numbers("b")) == ([0], [0, 1, 2, 3])
            assert [(each.key, each.attempts, each.error) for each in found.first] == [
                ("a", 3, "500 Internal Server Error: no\\u001b[1m room")
            ]
            ids = {each.id for each in receiver.came if each not in receiver.taken}
            assert len(ids) == 1  # all attempts have one id
            receiver.decide = lambda _: (200, {}, b"")
            with pytest.raises(WiringError, match=r"counts\.made/9/9 is no parked delivery of subscriber one"):
                await retry(log, "one", "counts.made/9/9")
            assert await retry(log, "one", found.first[0].id) == 1
            await until(lambda: receiver.numbers("a") == [0, 1, 2, 3])
            await until_status(log, path, failed=0, waiting=0, retried=0)


async def test_a_parked_delivery_can_be_given_up(tmp_path: Path) -> None:
    async with open_log("memory://", APP) as log, receiving(refusing("a", 1, (422, {}, b""))) as receiver:
        path = declared(tmp_path / "hooks.toml", one=f'"{receiver.url}"\nattempts = 1\nbegin = "start"')
        await publish(log, range(4), "a")
        async with delivering(log, path):
            found = await until_status(log, path, failed=1, waiting=2)
            await discard(log, "one", found.first[0].id)
            await until(lambda: receiver.numbers("a") == [0, 2, 3])


async def test_an_endpoint_that_is_gone_gets_nothing_until_it_is_enabled(tmp_path: Path) -> None:
    async with open_log("memory://", APP) as log, receiving(lambda _: (410, {}, b"")) as receiver:
        path = declared(tmp_path / "hooks.toml", one=f'"{receiver.url}"\nbegin = "start"\nconcurrency = 1')
        await publish(log, range(3))
        async with delivering(log, path):
            found = await until_status(log, path, disabled="its endpoint answered 410 Gone")
            assert len(receiver.came) == 1
        async with delivering(log, path):  # of another process, too
            await publish(log, range(3, 4))
            await asyncio.sleep(0.2)
            assert len(receiver.came) == 1
            receiver.decide = lambda _: (204, {}, b"")
            await enable(log, "one")
            await until(lambda: all(receiver.numbers(key) == [0, 1, 2, 3] for key in KEYS))
    assert found.failed == 0


def hang(_: Delivered) -> "asyncio.Future[Reply]":
    return asyncio.get_running_loop().create_future()


@pytest.mark.parametrize(
    ("decide", "error"),
    [
        (hang, "no answer within 0.2 s"),
        (lambda _: (302, {"location": "http://127.0.0.1:1/"}, b""), "302 Found: redirects are not followed"),
        (lambda _: (500, {}, b"x" * 1_000_000), "500 Internal Server Error"),
        (lambda _: (200, {"x": "y" * 200_000}, b""), "RemoteProtocolError"),
        (lambda _: (999, {}, b""), "999"),
    ],
    ids=["hangs", "redirects", "talks", "shouts", "unknown"],
)
async def test_what_receivers_do_wrong_is_a_failed_attempt(tmp_path: Path, decide: Decide, error: str) -> None:
    async with open_log("memory://", APP) as log, receiving(decide) as receiver:
        path = declared(
            tmp_path / "hooks.toml", one=f'"{receiver.url}"\nattempts = 1\nbegin = "start"\ntimeout_s = 0.2'
        )
        await publish(log, range(1), "a")
        async with delivering(log, path):
            found = await until_status(log, path, failed=1)
    assert (found.first[0].error or "").startswith(error)
    assert len(found.first[0].error or "") < 300


async def test_no_cookie_is_kept(tmp_path: Path) -> None:
    async with open_log("memory://", APP) as log, receiving(lambda _: (204, {"set-cookie": "a=b"}, b"")) as receiver:
        path = declared(tmp_path / "hooks.toml", one=f'"{receiver.url}"\nbegin = "start"')
        await publish(log, range(3), "a")
        async with delivering(log, path):
            await until(lambda: receiver.numbers("a") == [0, 1, 2])
    assert not any("cookie" in each.headers for each in receiver.taken)


async def test_an_answer_that_never_ends_is_taken_by_its_status(tmp_path: Path) -> None:
    endless = {"content-length": "1000000000"}
    async with open_log("memory://", APP) as log, receiving(lambda _: (200, endless, b"x" * 100_000)) as receiver:
        path = declared(tmp_path / "hooks.toml", one=f'"{receiver.url}"\nbegin = "start"')
        await publish(log, range(2), "a")
        async with delivering(log, path):
            await until(lambda: receiver.numbers("a") == [0, 1])
            await until_status(log, path, retried=0, waiting=0, failed=0, lag=0)


async def test_retry_after_is_waited_for(tmp_path: Path) -> None:
    busy = refusing("a", 0, (503, {"retry-after": "3600"}, b""))
    async with open_log("memory://", APP) as log, receiving(busy) as receiver:
        path = declared(tmp_path / "hooks.toml", one=f'"{receiver.url}"\nbegin = "start"')
        await publish(log, range(1), "a")
        async with delivering(log, path):
            found = await until_status(log, path, retried=1)
    assert 3500 < (found.first[0].due_ms or 0) / 1000 - time.time() <= 3600


async def test_a_subscriber_that_hangs_keeps_no_other_waiting(tmp_path: Path) -> None:
    async with open_log("memory://", APP) as log, receiving(hang) as slow, receiving() as fast:
        path = declared(tmp_path / "hooks.toml", slow=f'"{slow.url}"\ntimeout_s = 60', fast=f'"{fast.url}"')
        async with delivering(log, path):
            await until_begun(log, path, "slow", "fast")
            await publish(log, range(1))
            await until(lambda: len(slow.came) > 0)
            began = time.monotonic()
            await publish(log, range(1, 30))
            await until(lambda: all(fast.numbers(key) == [*range(30)] for key in KEYS))
            assert time.monotonic() - began < 30
            assert slow.taken == []


async def until_begun(log: EventLog, path: Path, *names: str) -> None:
    for name in names:
        while (await status(log, path, name)).lag is None:
            await asyncio.sleep(0.02)


async def test_subscribers_come_go_and_change_while_others_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    new = "whsec_" + "YW5vdGhlciBzZWNyZXQgb2YgdGhlIHRlc3RzISEhISE="
    monkeypatch.setenv("NEW_SECRET", new)
    async with open_log("memory://", APP) as log, receiving() as one, receiving() as other:
        path = declared(tmp_path / "hooks.toml", one=f'"{one.url}"')
        async with delivering(log, path) as runner:
            await until_begun(log, path, "one")
            path.write_text("this is no TOML")
            await asyncio.sleep(1.2)  # it is looked at once a second
            declared(path, one=f'"{one.url}"', other=f'"{other.url}"\nwhere = {{counter = "b"}}')
            path.write_text(path.read_text().replace('"env:HOOK_SECRET"', '"env:NEW_SECRET", "env:HOOK_SECRET"'))
            other.secret = new
            await until_begun(log, path, "other")
            await publish(log, range(2), "ab")
            await until(lambda: one.numbers("a") == one.numbers("b") == other.numbers("b") == [0, 1])
            assert other.numbers("a") == []
            assert " v1," in one.came[-1].headers["webhook-signature"]
            path.write_text("")
            await until(lambda: not runner.subscribers)
            came = len(one.came)
            await publish(log, range(2, 3), "a")
            await asyncio.sleep(0.5)
            assert len(one.came) == came


async def test_a_replay_sends_the_same_ids_again(tmp_path: Path) -> None:
    async with open_log("memory://", APP) as log, receiving() as receiver:
        path = declared(tmp_path / "hooks.toml", one=f'"{receiver.url}"')
        await publish(log, range(3), "a")
        async with delivering(log, path):
            await until_begun(log, path, "one")
            await publish(log, range(3, 5), "a")
            await until(lambda: receiver.numbers("a") == [3, 4])
            assert await replay(log, read_subscribers(path)["one"], "earliest") == 5
            await until(lambda: len(receiver.taken) == 7)
        assert receiver.numbers("a") == [3, 4, 0, 1, 2]
        assert [each.event.get_data()["number"] for each in receiver.taken[2:]] == [0, 1, 2, 3, 4]


async def test_personal_fields_are_masked_unless_they_are_declared(tmp_path: Path) -> None:
    async with open_log("memory://", APP) as log, receiving() as one, receiving() as other:
        path = declared(
            tmp_path / "hooks.toml",
            one=f'"{one.url}"\nbegin = "start"',
            other=f'"{other.url}"\nbegin = "start"\npersonal = true',
        )
        await log.publish(Counted(counter="a", number=1, by="Ada Lovelace"))
        async with delivering(log, path):
            await until(lambda: len(one.taken) == len(other.taken) == 1)
    assert one.taken[0].event.get_data()["by"] == "[personal]"
    assert other.taken[0].event.get_data()["by"] == "Ada Lovelace"
    assert b"Ada" not in one.taken[0].body


async def test_a_log_that_fails_after_a_delivery_makes_duplicates_with_one_id_and_no_gap(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_log("memory://", APP) as log, receiving() as receiver:
        path = declared(tmp_path / "hooks.toml", one=f'"{receiver.url}"\nbegin = "start"')
        await publish(log, range(20))
        append, failures = log.port.append, iter([False, True, False, True, True])

        async def failing(records: Sequence[Record], claim: Claim | None = None) -> list[int]:
            if next(failures, False):
                raise LogUnavailable("the disk is away")
            return await append(records, claim)

        monkeypatch.setattr(log.port, "append", failing)
        async with delivering(log, path):
            await until(lambda: all(receiver.numbers(key) == [*range(20)] for key in KEYS))
            await until_status(log, path, lag=0, retried=0, waiting=0)
        assert len(receiver.taken) > 160
        assert len({each.id for each in receiver.taken}) == 160


async def test_no_more_is_read_than_can_be_parked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delivering_module, "MOST_PARKED", 50)
    async with open_log("memory://", APP) as log, receiving(lambda _: (500, {}, b"")) as receiver:
        path = declared(tmp_path / "hooks.toml", one=f'"{receiver.url}"\nbegin = "start"\nattempts = 100')
        await publish(log, range(40))
        async with delivering(log, path):
            await until(lambda: len(receiver.came) > 20)
            found = await status(log, path)
            assert found.lag is not None
            assert found.lag >= 160
            assert 50 <= found.retried + found.waiting + found.failed <= 50 + 100
            receiver.decide = lambda _: (204, {}, b"")
            await until(lambda: all(receiver.numbers(key) == [*range(40)] for key in KEYS))


async def test_of_two_processes_one_delivers_and_the_other_takes_over(tmp_path: Path) -> None:
    async with open_log("memory://", APP) as log, receiving() as receiver:
        path = declared(tmp_path / "hooks.toml", one=f'"{receiver.url}"\nbegin = "start"')
        async with delivering(log, path):
            async with delivering(log, path):
                await publish(log, range(5))
                await until(lambda: all(receiver.numbers(key) == [*range(5)] for key in KEYS))
            await publish(log, range(5, 9))
            await until(lambda: all(receiver.numbers(key) == [*range(9)] for key in KEYS))
    assert len(receiver.taken) == 72


async def test_a_private_address_is_refused_unless_it_is_allowed(tmp_path: Path) -> None:
    async with open_log("memory://", APP) as log, receiving() as receiver:
        path = declared(tmp_path / "hooks.toml", one=f'"{receiver.url}"\nattempts = 1\nbegin = "start"')
        path.write_text(path.read_text().replace("private = true\n", ""))
        await publish(log, range(1), "a")
        async with delivering(log, path):
            found = await until_status(log, path, failed=1)
    assert found.first[0].error == "127.0.0.1 is 127.0.0.1, which is not a public address: `private = true` allows it"
    assert receiver.came == []


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


async def test_an_answer_that_may_quote_a_person_is_not_kept(tmp_path: Path) -> None:
    async with open_log("memory://", APP) as log, receiving(lambda _: (400, {}, b"no Ada here")) as receiver:
        path = declared(
            tmp_path / "hooks.toml", one=f'"{receiver.url}"\nattempts = 1\nbegin = "start"\npersonal = true'
        )
        await log.publish(Counted(counter="a", number=1, by="Ada"))
        async with delivering(log, path):
            found = await until_status(log, path, failed=1)
    assert found.first[0].error == "400 Bad Request"


async def test_a_certificate_has_to_be_that_of_the_urls_host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The address that was looked at is connected to, and the host's name is what the certificate has to have."""
    tls = self_signed(tmp_path, "localhost")
    monkeypatch.setenv("SSL_CERT_FILE", tls.certificate)
    trust.cache_clear()
    server = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    server.load_cert_chain(tls.certificate, tls.key)
    async with open_log("memory://", APP) as log, receiving(tls=server) as receiver:
        right, wrong = receiver.url.replace("127.0.0.1", "localhost"), receiver.url
        path = declared(
            tmp_path / "hooks.toml",
            one=f'"{wrong}"\nattempts = 1\nbegin = "start"',
            right=f'"{right}"\nbegin = "start"',
        )
        await publish(log, range(1), "a")
        async with delivering(log, path):
            found = await until_status(log, path, failed=1)
            await until(lambda: receiver.numbers("a") == [0])
    trust.cache_clear()
    assert "certificate verify failed" in (found.first[0].error or "")
    assert receiver.taken[0].headers["host"].startswith("localhost:")


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


async def test_commands_work_beside_a_process_or_without_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EVENTLIB_PERSONAL_MASTER", f"file:{tmp_path / 'master.key'}")
    create_secret(tmp_path / "master.key")
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
