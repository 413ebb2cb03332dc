"""The command line on a real log: finished sagas, a compensated one, parked keys and effects, and pipes."""

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from eventlib import open_log
from eventlib.cli import run
from services import shop
from services.order.events import ProductListed
from tests.integration.shop_log import GARBAGE, LINES, Objects, Print, fill, order, served


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-c", "from eventlib.cli import main; main()", *arguments]


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


# --- sagas and states


def test_the_saga_of_a_completed_order(objects: Objects) -> None:
    (saga,) = objects("saga", "completed")
    assert saga["ended"] is True
    assert saga["ending"] == "OrderCompleted"
    events = saga["events"]
    assert events[0]["type"] == "OrderSubmitted"
    assert events[0]["cause"] is None
    assert {event["role"] for event in events} == {"step"}
    ids = {event["id"] for event in events}
    assert all(event["causation_id"] in ids for event in events[1:])
    assert {event["service"] for event in events} == {"outside", "order", "stock", "payment", "dispatch"}
    requested = [event for event in events if event["type"] == "LineRequested"]
    assert [event["key"] for event in requested] == ["A"]


def test_the_saga_of_a_declined_order_shows_its_compensation(shown: Print, objects: Objects) -> None:
    (saga,) = objects("saga", "declined")
    found = {event["type"]: event["role"] for event in saga["events"]}
    assert found["PaymentFailed"] == "failure"
    assert found["LineReleased"] == found["StockReleased"] == "compensation"
    printed = shown("saga", "declined")
    assert "declined  ended with OrderCancelled after" in printed
    assert "✗ PaymentFailed" in printed
    assert "↩ LineReleased" in printed
    assert "■ OrderCancelled" in printed
    assert max(map(len, printed.splitlines())) <= 100


def test_many_events_of_one_kind_are_one_line_unless_all_are_wanted(shown: Print) -> None:
    assert f"LineReserved ×{LINES}" in shown("saga", "large")  # noqa: RUF001  the sign for "times"
    assert shown("saga", "large", "--all", "--tree").count("LineReserved") == LINES


def test_a_saga_that_waits_for_a_person_says_why(shown: Print, objects: Objects) -> None:
    printed = " ".join(shown("saga", "broken").split())
    assert "not ended" in printed
    assert "ChargeRequested is parked since" in printed
    assert "the gateway does not know us" in printed
    (saga,) = objects("saga", "broken")
    assert [parked["effect"] for parked in saga["parked"]] == ["ChargeRequested"]


def test_a_saga_that_nobody_has_heard_of(shown: Print) -> None:
    assert "no event on this log has the key 'nope'" in shown("saga", "nope", code=1)


def test_a_saga_as_it_stood_at_a_time(shown: Print, objects: Objects) -> None:
    (whole,) = objects("saga", "declined")
    by_type = {event["type"]: event for event in whole["events"]}
    at = by_type["ChargeRequested"]["recorded_at"]
    (then,) = objects("saga", "declined", "--at", at)
    assert then["events"] == [event for event in whole["events"] if event["recorded_at"] <= at]
    assert then["ended"] is False
    assert "OrderCancelled" not in {event["type"] for event in then["events"]}
    states = {each["decider"]: each for each in then["states"]}
    assert list(states) == ["order", "reservation", "payment"], "dispatch has not heard of it"
    assert (states["payment"]["state"]["stage"], states["payment"]["waits"]) == ("charging", None)
    assert list(states["order"]["deadlines"]) == ["overdue_at"]
    printed = shown("saga", "declined", "--at", at)
    assert f"declined  not ended by {at} over" in printed
    assert "stage=charging" in printed
    assert "deadline overdue_at: 20" in printed
    assert "its first event is of" in shown("saga", "declined", "--at", "2020-01-01", code=1)
    assert "'soon' is no time" in shown("saga", "declined", "--at", "soon", code=2)


def test_a_saga_as_it_stood_says_what_waited_for_a_person(shown: Print, objects: Objects) -> None:
    (then,) = objects("saga", "broken", "--at", "2999-01-01")
    waits = {each["decider"]: each["waits"] for each in then["states"]}
    assert waits == {"order": None, "reservation": None, "payment": "TerminalError: the gateway does not know us"}
    assert "waits: TerminalError: the gateway does not know us" in shown("saga", "broken", "--at", "2999-01-01")
    (then,) = objects("saga", "garbled", "--at", "2999-01-01")
    assert {each["state"] for each in then["states"]} == {None}
    assert all("magic byte" in each["waits"] for each in then["states"])
    assert shown("saga", "garbled", "--at", "2999-01-01").count("waits: PaymentTaken: ") == len(then["states"])


def test_following_a_saga_that_has_ended_shows_it_and_ends(shown: Print, objects: Objects) -> None:
    (whole,) = objects("saga", "declined")
    assert objects("saga", "declined", "--follow") == whole["events"]
    printed = shown("saga", "declined", "--follow")
    assert [line.count("LineReserved") for line in printed.splitlines()].count(1) == 1
    assert "declined  ended with OrderCancelled after" in printed.splitlines()[-1]
    assert "excludes --at and --tree" in shown("saga", "declined", "--follow", "--tree", code=2)


def test_the_state_of_a_key(objects: Objects, shown: Print) -> None:
    (known,) = objects("state", "shelf", "A")
    assert known["state"] == {"on_hand": 100 - 2 - LINES, "reserved": 1, "shipped": 1 + LINES}
    (known,) = objects("state", "order", "broken")
    assert known["changed_by"] in {line["id"] for line in objects("tail")}
    assert [*known["deadlines"]] == ["overdue_at"]
    assert known["requests_answered"] == 1
    assert "deadline overdue_at" in shown("state", "order", "broken")


def test_the_state_of_a_key_at_a_time_and_after_an_event(objects: Objects, shown: Print) -> None:
    (saga,) = objects("saga", "declined")
    by_type = {event["type"]: event for event in saga["events"]}
    asked, failed = by_type["ChargeRequested"], by_type["PaymentFailed"]
    (then,) = objects("state", "payment", "declined", "--at", asked["recorded_at"])
    assert (then["state"]["stage"], then["recorded_at"]) == ("charging", asked["recorded_at"])
    (then,) = objects("state", "payment", "declined", "--at", failed["id"])
    assert then["state"]["stage"] == "failed"
    (now,) = objects("state", "payment", "declined")
    assert objects("state", "payment", "declined", "--at", "2999-01-01") == [now]
    assert "stage         charging" in shown("state", "payment", "declined", "--at", asked["id"][:8])
    assert "payment had no state of 'declined' then" in shown(
        "state", "payment", "declined", "--at", "2020-01-01", code=1
    )
    assert "no event on this log has the id 'soon'" in shown("state", "payment", "declined", "--at", "soon", code=1)


def test_states_that_are_not_there(shown: Print) -> None:
    assert "there is no decider 'nope'; known are delivery" in shown("state", "nope", "1", code=1)
    assert "decider order knows nothing of key 'nope'" in shown("state", "order", "nope", code=1)


# --- parked


def test_parked_keys_and_effects_are_listed(objects: Objects, shown: Print) -> None:
    found = objects("parked", "list")
    assert {(row["service"], row["decider"], row["key"], row["effect"]) for row in found} == {
        ("order", "order", "garbled", None),
        ("payment", "payment", "garbled", None),
        ("dispatch", "shipment", "garbled", None),
        ("payment", "payment", "broken", "ChargeRequested"),
    }
    assert "ChargeRequested: TerminalError: the gateway does not know us" in " ".join(shown("parked", "list").split())


def test_what_waits_is_shown_with_its_place_and_its_bytes(objects: Objects, shown: Print) -> None:
    first = objects("parked", "show", "garbled")[0]
    assert first["topic"] == "payments"
    assert first["bytes"] == GARBAGE.hex()
    assert "magic byte" in first["reason"]
    assert GARBAGE.hex() in shown("parked", "show", "garbled")
    (effect,) = objects("parked", "show", "broken")
    assert effect["type"] == "ChargeRequested"
    assert effect["data"]["amount_cents"] == 250


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
    assert run(["parked", "retry", "--all", "--json"]) == 0
    assert {json.loads(line)["key"] for line in capsys.readouterr().out.splitlines()} == {"garbled"}


# --- as a process


def test_a_closed_pipe_is_no_error(filled: str) -> None:
    for arguments in (["tail", "--json"], ["tail"], ["topics"], ["saga", "large", "--all"]):
        with subprocess.Popen(
            command(*arguments, "--log", filled), stdout=subprocess.PIPE, stderr=subprocess.PIPE
        ) as process:
            assert process.stdout is not None
            assert process.stderr is not None
            process.stdout.close()
            assert process.stderr.read() == b""
        assert process.returncode == 0


def test_follow_waits_for_what_comes_and_ctrl_c_ends_it_quietly(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/shop.db"

    async def publish(name: str) -> None:
        async with open_log(url, shop) as log:
            await log.publish(ProductListed(sku=name, description="", unit_price_cents=1, currency="EUR"))

    asyncio.run(publish("before"))
    with subprocess.Popen(
        command("tail", "products", "--follow", "--json", "--log", url), stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert json.loads(process.stdout.readline())["key"] == "before"
        asyncio.run(publish("after"))
        assert json.loads(process.stdout.readline())["key"] == "after"
        process.send_signal(signal.SIGINT)
        assert process.stderr.read() == b""
    assert process.returncode == 130


def test_a_saga_is_followed_from_before_its_first_event_to_its_end(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/shop.db"

    async def delivered() -> None:
        async with open_log(url, shop) as log:
            await log.publish(ProductListed(sku="A", description="", unit_price_cents=250, currency="EUR"))

    async def ordered() -> None:
        async with open_log(url, shop) as log:
            await log.publish_many([order("1"), order("2")])
            await served(log)

    asyncio.run(delivered())
    with subprocess.Popen(
        command("saga", "1", "--follow", "--log", url), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline() == "1 has no event yet; waiting for the first one.\n"
        asyncio.run(ordered())
        lines = process.stdout.read().splitlines()
        assert process.stderr.read() == ""
    assert process.returncode == 0
    kinds = [re.findall(r"[A-Z][A-Za-z]+", line)[0] for line in lines[:-2]]
    assert kinds == ["OrderSubmitted", "OrderPlaced", "LineRequested", "LineRefused", "StockRejected", "OrderCancelled"]
    assert "ended with OrderCancelled" in lines[-1]


RUNNABLE = """
from contextlib import asynccontextmanager
from services import shop as declared
from eventlib import Choreography
from tests.integration import shop_log as fakes

@asynccontextmanager
async def outside(url):
    yield {"gateway": fakes.Gateway(), "carrier": fakes.Carrier()}

shop = Choreography("shop", declared.services, facts=declared.facts, ports=outside)
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_run_serves_until_it_is_told_to_stop(
    tmp_path: Path, number: signal.Signals, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "runnable.py").write_text(RUNNABLE)
    url = f"sqlite:///{tmp_path}/shop.db"
    here = Path(__file__).parents[2]
    with subprocess.Popen(
        command("run", "--app", "runnable:shop", "--log", url),
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(here)},
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stderr is not None
        assert process.stderr.readline() == f"Running order, stock, payment, dispatch on {url}; Ctrl-C stops.\n"

        async def placed() -> None:
            async with open_log(url, shop) as log:
                await log.publish_many([order("refused")])

        asyncio.run(placed())
        monkeypatch.setenv("EVENTLIB_LOG", url)
        deadline = time.monotonic() + 20
        while "OrderCancelled" not in capsys.readouterr().out:
            assert time.monotonic() < deadline
            assert run(["tail", "orders"]) == 0
        process.send_signal(number)
        assert process.stderr.read() == "Stopping: finishing the inputs in progress.\nStopped.\n"
    assert process.returncode == 0


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
