"""`eventlib publish`: what goes through, what it prints, and one sentence for whatever does not."""

import asyncio
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from eventlib import open_log
from eventlib.cli import run
from eventlib.model.identity import request_id
from eventlib.model.record import Record
from services import shop

Publish = Callable[..., str]

PRODUCT = '{"sku": "A", "description": "Ä", "unit_price_cents": 250, "currency": "EUR"}'
CANCEL = ["CancelSubmitted", "--data", '{"order_id": "O1"}']


@pytest.fixture
def url(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    url = f"sqlite:///{tmp_path}/shop.db"
    monkeypatch.setenv("EVENTLIB_LOG", url)
    return url


@pytest.fixture
def publish(url: str, capsys: pytest.CaptureFixture[str]) -> Publish:
    """Run `eventlib publish`, and return what it prints."""
    del url

    def command(*arguments: str, code: int = 0) -> str:
        assert run(["publish", *arguments]) == code
        out, err = capsys.readouterr()
        assert bool(out) is (code == 0)
        return out if code == 0 else err.removeprefix("eventlib: ")

    return command


def on_log(url: str, topic: str) -> list[Record]:
    async def read() -> list[Record]:
        async with open_log(url, shop) as log:
            return [r for p in range(8) for r in await log.port.read(topic, p, 0, 100)]

    return asyncio.run(read())


def test_it_prints_where_the_event_stands(publish: Publish, url: str) -> None:
    said = publish("ProductListed", "--data", PRODUCT)
    (record,) = on_log(url, "products")
    assert said.startswith(f"ProductListed is on the log: products/{record.partition}@{record.offset}, recorded at 20")
    assert len(on_log(url, "products.latest")) == 1


def test_json_is_the_position(publish: Publish, url: str) -> None:
    found: dict[str, Any] = json.loads(publish(*CANCEL, "--json"))
    (record,) = on_log(url, "order.requests")
    assert found.pop("recorded_at").endswith("Z")
    assert found == {
        "topic": "order.requests",
        "partition": record.partition,
        "offset": record.offset,
        "key": "O1",
        "type": "CancelSubmitted",
    }


def test_key_headers_and_idempotency_key(publish: Publish, url: str) -> None:
    arguments = ["CancelSubmitted", "--key", "O1", "--data", '{"reason": "late"}']
    publish(*arguments, "--idempotency-key", "c1", "--header", "who=me=you", "--header", "empty=")
    publish(*arguments, "--idempotency-key", "c1")
    first, second = on_log(url, "order.requests")
    assert first.headers == (("who", b"me=you"), ("empty", b""))
    assert (first.key, first.value) == (second.key, second.value)
    assert first.id == second.id == request_id("order.requests", "c1")


def test_data_from_stdin(publish: Publish, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(PRODUCT))
    publish("ProductListed", "--data", "-")
    assert on_log(url, "products")[0].key == b"A"


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (
            ["CancelSubmited", "--data", "{}"],
            "there is no event 'CancelSubmited'; did you mean CancelSubmitted? known are ",
        ),
        (["CancelSubmitted", "--data", "{"], "--data is not JSON: "),
        (["CancelSubmitted", "--data", "[1]"], "--data is a JSON list, and an event is an object of fields"),
        (["CancelSubmitted", "--data", "{}"], "CancelSubmitted does not fit: field order_id: Field required"),
        (
            ["CancelSubmitted", "--data", r'{"order_id": "\ud800"}'],
            "CancelSubmitted does not fit: field order_id: it has half a character (a lone surrogate)",
        ),
        (["CancelSubmitted", "--data", '{"order_id": 1}'], "field order_id: Input should be a valid string"),
        (["CancelSubmitted", "--data", '{"order_id": "1", "x": 1}'], "field x: Extra inputs are not permitted"),
        (["ProductListed", "--data", PRODUCT.replace("250", "-1")], "field unit_price_cents: Input should be greater"),
        ([*CANCEL, "--key", "O2"], "--key is 'O2', but order_id in --data is 'O1'"),
        ([*CANCEL, "--header", "ce_id=1"], "the header 'ce_id' is the library's own"),
        ([*CANCEL, "--partition", "99", "--force"], "has partitions 0 to 7, but no 99"),
        ([*CANCEL, "--log", "memory://"], "memory:// lives and ends with one process: name a log file"),
    ],
)
def test_what_does_not_fit_is_told_by_its_name(publish: Publish, url: str, arguments: list[str], sentence: str) -> None:
    said = publish(*arguments, code=1)
    assert sentence in said
    assert said.count("\n") == 1
    assert on_log(url, "order.requests") == on_log(url, "products") == []


@pytest.mark.parametrize("arguments", [["CancelSubmitted"], [*CANCEL, "--header", "x"], [*CANCEL, "--partition", "-1"]])
def test_wrong_usage_points_to_help(publish: Publish, arguments: list[str]) -> None:
    assert "(see `eventlib publish --help`)" in publish(*arguments, code=2)


def test_a_fact_of_a_deciders_own_needs_force(publish: Publish, url: str) -> None:
    arguments = ["StockReleased", "--data", '{"order_id": "O1", "reason": "by hand"}']
    said = publish(*arguments, code=1)
    assert "StockReleased is a fact that decider reservation emits" in said
    assert "--force publishes it all the same" in said
    assert not Path(url.removeprefix("sqlite:///")).exists(), "nothing was made for what was refused"
    publish(*arguments, "--force")
    assert on_log(url, "stock")[0].type == "StockReleased"


def test_a_partition_that_is_not_the_keys_needs_force(publish: Publish, url: str) -> None:
    home = json.loads(publish(*CANCEL, "--json"))["partition"]
    publish(*CANCEL, "--partition", str(home))
    other = str((home + 1) % 8)
    said = publish(*CANCEL, "--partition", other, code=1)
    assert f"order_id 'O1' belongs in partition {home} of order.requests: in {other} its services would park it" in said
    publish(*CANCEL, "--partition", other, "--force")
    assert len(on_log(url, "order.requests")) == 3


def test_a_reason_makes_it_an_act(publish: Publish, url: str, capsys: pytest.CaptureFixture[str]) -> None:
    publish(*CANCEL, "--header", "who=shop")
    assert run(["acts", "--json"]) == 0
    assert capsys.readouterr().out == ""
    publish(*CANCEL, "--idempotency-key", "c1", "--reason", "by [b]phone[/b]")
    publish(*CANCEL, "--idempotency-key", "c1", "--reason", "by [b]phone[/b]")
    record = on_log(url, "order.requests")[-1]
    assert dict(record.headers)["sent_by"].startswith(b"os:")
    assert run(["acts", "--json"]) == 0
    (act,) = map(json.loads, capsys.readouterr().out.splitlines())
    assert (act["what"], act["service"], act["about"]) == ("send", "order", "CancelSubmitted O1")
    assert act["reason"] == "by [b]phone[/b]"
    assert run(["acts"]) == 0
    assert "by [b]phone[/b]" in capsys.readouterr().out
