"""Events reach subscribers: signed, at least once, those of a key in order, whatever fails meanwhile."""

import asyncio
import sys
import time
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from pathlib import Path

import pytest

from eventlib import WiringError, open_log
from eventlib.errors import LogUnavailable
from eventlib.log.base import Claim
from eventlib.model.record import Record
from eventlib.webhooks import delivering as delivering_module
from eventlib.webhooks.acts import discard, replay, retry
from eventlib.webhooks.subscribers import read_subscribers
from tests.integration.hooking import (
    KEYS,
    declared,
    delivering,
    hang,
    publish,
    refusing,
    status,
    until_begun,
    until_status,
)
from tests.integration.webhook_app import APP, Counted
from tests.waiting import until
from tests.webhook_receiver import receiving

pytestmark = pytest.mark.usefixtures("hook_secret")


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
            with pytest.raises(WiringError, match=r"counts\.made/9/9 is not a parked event of one"):
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
