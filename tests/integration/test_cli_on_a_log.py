"""The command line on a real log: its topics and their records, parked keys and effects, and the graph."""

import asyncio
import json
import re
from collections import Counter
from pathlib import Path

import pytest

from eventlib import open_log
from eventlib.cli import run
from services import shop
from tests.integration.shop_log import GARBAGE, Objects, Print, fill, served

# --- topics and tail


def test_topics_lists_events_first_and_counts_them(objects: Objects, shown: Print) -> None:
    found = {row["topic"]: row for row in objects("topics")}
    assert found["order.requests"]["records"] == 4
    assert found["products.latest"]["compacted"]
    assert found["order.requests"]["events"] == ["OrderSubmitted", "CancelSubmitted"]
    table = shown("topics")
    assert table.index("stock.requests") < table.index("order.journal")
    assert max(map(len, table.splitlines())) <= 100


FIELDS = [
    "topic",
    "partition",
    "offset",
    "recorded_at",
    "key",
    "type",
    "id",
    "source",
    "subject",
    "sequence",
    "correlation_id",
    "causation_id",
    "data",
]


def test_tail_prints_every_event_once_in_order_of_time(objects: Objects) -> None:
    lines = objects("tail")
    assert all([*line][:13] == FIELDS for line in lines)
    assert all(re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", line["recorded_at"]) for line in lines)
    times = [line["recorded_at"] for line in lines]
    assert times == sorted(times)
    ids = [line["id"] for line in lines]
    assert len(set(ids)) == len(ids)
    assert {line["topic"] for line in lines} == {
        "products",
        "order.requests",
        "orders",
        "stock.deliveries",
        "stock.requests",
        "stock.lines",
        "stock",
        "payments",
        "dispatches",
    }
    (placed,) = [line for line in lines if line["type"] == "OrderPlaced" and line["key"] == "completed"]
    assert placed["source"] == "order/order"
    assert placed["subject"] == "completed"
    assert placed["sequence"] == 1
    assert placed["data"]["lines"] == [{"line_no": 1, "sku": "A", "quantity": 1, "unit_price_cents": 250}]


def test_tail_says_why_a_record_cannot_be_decoded(objects: Objects, shown: Print) -> None:
    (line,) = [line for line in objects("tail", "payments") if line["key"] == "garbled"]
    assert line["data"] is None
    assert "magic byte" in line["error"]
    assert "! PaymentTaken: the first byte is 137" in shown("tail", "payments")


def test_tail_reads_what_services_keep_for_themselves_when_it_is_named(objects: Objects) -> None:
    changes = {line["key"]: line for line in objects("tail", "order.changelog")}
    assert changes["state/order/completed"]["data"]["currency"] == "EUR"
    assert changes["position"]["data"]["next"]
    assert changes["parked/order/garbled"]["data"]["count"] == 1
    assert objects("tail", "order.journal")[0]["data"]["steps"]
    (parked,) = objects("tail", "order.parked")
    assert parked["type"] == "PaymentTaken"
    assert "magic byte" in parked["error"]
    assert [line["data"]["sku"] for line in objects("tail", "products.latest")] == ["A"]


def test_tail_begins_where_it_is_told(objects: Objects) -> None:
    everything = objects("tail", "orders")
    assert objects("tail", "orders", "--from", "latest") == []
    middle = everything[len(everything) // 2]["recorded_at"]
    assert objects("tail", "orders", "--from", middle) == [e for e in everything if e["recorded_at"] >= middle]
    assert objects("tail", "orders", "--from", "1") == [e for e in everything if e["offset"] >= 1]


def test_tail_for_people_is_a_line_a_record(shown: Print, objects: Objects) -> None:
    lines = shown("tail").splitlines()
    assert len(lines) == len(objects("tail"))
    (line,) = [line for line in lines if "OrderCompleted" in line and "completed" in line.split()]
    assert "amount_cents=250 currency=EUR" in line
    assert "\x1b" not in "".join(lines)


def test_tail_of_a_topic_that_is_not_there(shown: Print) -> None:
    assert "there is no topic 'nope' on this log" in shown("tail", "nope", code=1)


# --- parked


def test_parked_keys_and_effects_are_listed(objects: Objects, shown: Print) -> None:
    found = objects("parked", "list")
    assert {(row["service"], row["decider"], row["key"], row["effect"]) for row in found} == {
        ("order", "order", "garbled", None),
        ("payment", "payment", "garbled", None),
        ("dispatch", "shipment", "garbled", None),
        ("payment", "payment", "broken", "ChargeRequested"),
    }
    assert "ChargeRequested: TerminalError: the gateway does not know us" in " ".join(
        shown("parked", "list", "--by", "key").split()
    )


def test_what_is_parked_is_shown_by_its_causes_with_what_to_do(objects: Objects, shown: Print) -> None:
    causes = {each["about"]: each for each in objects("parked", "list", "--by", "cause")}
    assert {name: each["keys"] for name, each in causes.items()} == {
        "order": ["garbled"],
        "payment": ["garbled"],
        "shipment": ["garbled"],
        "ChargeRequested": ["broken"],
    }
    cause = causes["ChargeRequested"]
    printed = shown("parked", "list")
    assert "1 effect  payment, ChargeRequested\nwhy    TerminalError: the gateway does not know us\n" in printed
    assert f"then   mend what it calls, and retry:\n  {cause['command']}\n" in printed
    assert "start the services with it, and retry" in causes["order"]["remedy"]
    assert printed.endswith("\n3 keys with 3 inputs and 1 effect\n")
    assert [each["key"] for each in objects("parked", "list", "--cause", cause["cause"])] == ["broken"]
    assert "gateway decides" in shown(*cause["command"].split()[1:])
    assert shown("parked", "list", "--cause", "none") == "Nothing is parked for this cause.\n"
    refused = shown("parked", "retry", "payment", "broken", "--cause", cause["cause"], code=2)
    assert "they need --all" in refused


def test_what_waits_is_shown_with_its_place_and_its_bytes(objects: Objects, shown: Print) -> None:
    first = objects("parked", "show", "garbled")[0]
    assert first["topic"] == "payments"
    assert first["bytes"] == GARBAGE.hex()
    assert "magic byte" in first["reason"]
    assert GARBAGE.hex() in shown("parked", "show", "garbled")
    (effect,) = objects("parked", "show", "broken")
    assert effect["type"] == "ChargeRequested"
    assert effect["data"]["amount_cents"] == 250


@pytest.mark.parametrize("command", [["saga"], ["state", "order"], ["history", "order"]])
def test_a_key_that_is_not_utf_8_is_refused_in_a_sentence(shown: Print, command: list[str]) -> None:
    assert "not UTF-8" in shown(*command, "\udcff", code=1)


def test_nothing_is_parked_under_a_key(shown: Print) -> None:
    assert "`eventlib parked list` shows what is" in shown("parked", "show", "completed", code=1)
    assert "nothing is parked under 'broken'" in shown("parked", "retry", "order", "broken", code=1)


def test_a_mended_effect_is_retried_and_the_order_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    url = f"sqlite:///{tmp_path}/shop.db"
    monkeypatch.setenv("EVENTLIB_LOG", url)
    asyncio.run(fill(url))
    assert run(["parked", "retry", "payment", "broken"]) == 0
    assert "payment, ChargeRequested broken: requested. The services do it when they run." in capsys.readouterr().out

    async def again() -> None:
        async with open_log(url, shop) as log:
            await served(log, mended=True)

    asyncio.run(again())
    assert run(["saga", "broken", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["ending"] == "OrderCompleted"
    assert run(["parked", "retry", "--all", "--wait", "0", "--json"]) == 0
    assert {json.loads(line)["key"] for line in capsys.readouterr().out.splitlines()} == {"garbled"}


# --- graph


def test_the_graph_counts_what_tail_prints(objects: Objects) -> None:
    (graph,) = objects("graph", "--log")
    events = objects("tail")
    types = {event["id"]: event["type"] for event in events}
    pairs = Counter((types.get(event["causation_id"]), event["type"]) for event in events)
    for arrow in graph["arrows"]:
        if not arrow["source"].startswith(("effect/", "deadline/")) and not arrow["target"].startswith("effect/"):
            assert arrow["count"] == pairs[arrow["source"], arrow["target"]]
    counts = {node["id"]: node["count"] for node in graph["nodes"] if node["kind"] in {"event", "request"}}
    said = Counter(event["type"] for event in events)
    assert {name: count for name, count in counts.items() if count} == {
        name: count for name, count in said.items() if name in counts
    }
    charged = [arrow for arrow in graph["arrows"] if arrow["target"] == "PaymentTaken"]
    assert sum(arrow["count"] for arrow in charged) == pairs["ChargeRequested", "PaymentTaken"]
    assert any(arrow["p95_ms"] is not None for arrow in charged)


def test_a_drawing_with_what_was_counted(shown: Print, tmp_path: Path) -> None:
    assert shown("graph", "--log", "--out", f"{tmp_path}/shop.svg") == ""
    drawn = (tmp_path / "shop.svg").read_text()
    assert re.search(r'class="traffic"[^>]*>\d+ · \d+ ms</text>', drawn)
