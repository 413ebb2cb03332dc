"""Whatever endpoints answer is a failed attempt or a delivery, and only those that may be are connected to."""

import asyncio
import ssl
import time
from pathlib import Path

import pytest

from eventlib import open_log
from eventlib.webhooks.acts import enable
from eventlib.webhooks.delivering import Delivering
from eventlib.webhooks.endpoint import trust
from tests.contract.registry_servers import self_signed
from tests.integration.hooking import KEYS, declared, delivering, hang, publish, refusing, until_status
from tests.integration.webhook_app import APP, Counted
from tests.waiting import until
from tests.webhook_receiver import Decide, receiving

pytestmark = pytest.mark.usefixtures("hook_secret")


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


async def test_what_was_parked_follows_without_a_pause_once_it_is_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However few deliveries may be under way at a time."""
    retry, times, keys = Delivering.retry, list[Delivering](), "abcdefghijklmnopqrstuvwxyz"

    async def counted(delivering: Delivering) -> None:
        times.append(delivering)
        await retry(delivering)

    monkeypatch.setattr(Delivering, "retry", counted)
    async with open_log("memory://", APP) as log, receiving(lambda _: (410, {}, b"")) as receiver:
        path = declared(tmp_path / "hooks.toml", one=f'"{receiver.url}"\nbegin = "start"\nconcurrency = 1')
        await publish(log, range(1), keys)
        async with delivering(log, path):
            await until_status(log, path, disabled="its endpoint answered 410 Gone")
            receiver.decide = lambda _: (204, {}, b"")
            times.clear()
            await enable(log, "one")
            await until(lambda: all(receiver.numbers(key) == [0] for key in keys))
    assert len(times) < len(keys) / 2


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


async def test_a_private_address_is_refused_unless_it_is_allowed(tmp_path: Path) -> None:
    async with open_log("memory://", APP) as log, receiving() as receiver:
        path = declared(tmp_path / "hooks.toml", one=f'"{receiver.url}"\nattempts = 1\nbegin = "start"')
        path.write_text(path.read_text().replace("private = true\n", ""))
        await publish(log, range(1), "a")
        async with delivering(log, path):
            found = await until_status(log, path, failed=1)
    assert found.first[0].error == "127.0.0.1 is 127.0.0.1, which is not a public address: `private = true` allows it"
    assert receiver.came == []


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
