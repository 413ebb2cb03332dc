"""What would have been: nothing else by today's rules, and by others what plain Python computes from the same log."""

import json
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, Row, SparkSession

from analytics.cli import run
from services.order.events import OrderPlaced, OrderSubmitted
from services.payment.events import ChargeRequested
from services.stock.events import LineReleaseRequested, LineRequested, StockReceived
from tests.analytics.supposing import CANCELLED, COMPLETED, Ended, Recorded, by_saga, recorded, supposed, then_by_order
from tests.analytics.tomorrow import LARGE_CENTS, TOO_LARGE, declines
from tests.commands import ended, said
from tests.saga.shop_runs import REAL_ORDERS, ShopLog

_CAUTIOUS = "tests.analytics.tomorrow:cautious"


@pytest.fixture(scope="module")
def single_lines(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The URL of a log of orders of one line each, for three products that run out."""
    directory = tmp_path_factory.mktemp("single")
    lines = [
        {
            "order_id": f"S-{n:04}",
            "placed_at": "2026-01-05T08:07:00Z",
            "customer_id": None,
            "country": "France",
            "cancels": None,
            "lines": [
                {"sku": f"P{n % 3}", "description": "LAMP", "quantity": 1 + n * 7 % 11, "unit_price": "2.50"},
            ],
        }
        for n in range(1, 151)
    ]
    file = directory / "orders.ndjson"
    file.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    log = ShopLog(directory)
    log.run_import(file, "--stock", "120", "--decline", "0.2", "--seed", "3")
    return log.url


def test_todays_code_gives_no_difference(spark: SparkSession, shop_log: str, tmp_path: Path) -> None:
    outcome = supposed(spark, shop_log, tmp_path)
    log = recorded(shop_log)
    assert outcome.events.where("difference != 'unchanged'").collect() == []
    assert outcome.events.count() == len(log.events)
    assert {saga: ended for saga, ended in by_saga(outcome).items() if saga} == then_by_order(log)
    origins = {(row["origin"], row["is_answer"]) for row in outcome.events.select("origin", "is_answer").collect()}
    assert origins == {("recorded", False), ("recorded", True), ("decided", False)}


@pytest.mark.extended
def test_with_plenty_of_stock_what_was_refused_depends_on_the_model(
    spark: SparkSession, shop_log: str, tmp_path: Path
) -> None:
    names: dict[str, Any] = {"change": "tests.analytics.tomorrow:plenty", "model": "tests.analytics.tomorrow:model"}
    outcome, log = supposed(spark, shop_log, tmp_path, **names), recorded(shop_log)
    expected = then_by_order(log)
    orders = {order.order_id: order for order in log.of(OrderSubmitted)}
    asked = {charge.order_id for charge in log.of(ChargeRequested)}
    short = [order for order, ended in expected.items() if ended.reason == "out_of_stock"]
    for order_id in short:
        lines = orders[order_id].lines
        cents = sum(line.quantity * line.unit_price_cents for line in lines)
        units = sum(line.quantity for line in lines)
        completed = Ended(COMPLETED, None, cents, units)
        expected[order_id] = Ended(CANCELLED, "declined", 0, 0) if declines(order_id) else completed
    assert short
    assert not asked & set(short)
    assert by_saga(outcome) == expected
    modelled = outcome.events.where("is_answer AND origin = 'modelled'").collect()
    assert {row["saga"] for row in modelled} == set(short)
    assert {row["difference"] for row in modelled} == {"added"}


def test_a_refusal_of_large_orders_gives_what_plain_python_computes(
    spark: SparkSession, single_lines: str, tmp_path: Path
) -> None:
    names: dict[str, Any] = {"tomorrow": _CAUTIOUS, "model": "tests.analytics.tomorrow:generous"}
    outcome, log = supposed(spark, single_lines, tmp_path, **names), recorded(single_lines)
    expected = without_large_orders(log)
    then = then_by_order(log)
    assert outcome.parts == 2  # each product's orders are independent of the others'
    assert by_saga(outcome) == expected
    became = Counter((then[order].reason, expected[order].reason) for order in expected)
    assert became["out_of_stock", None] > 0  # the stock of those that were refused went to others
    assert became[None, TOO_LARGE] > 0
    first = {row["saga"]: row["first_difference"] for row in outcome.sagas.collect()}
    changed = {order for order, difference in first.items() if difference is not None}
    otherwise = {order for order in expected if expected[order] != then[order]}
    assert otherwise <= changed
    assert {first[order]["type"] for order in changed - otherwise} <= {"LineRefused"}  # more or fewer were available
    large = next(order for order in expected if expected[order].reason == TOO_LARGE)
    assert (first[large]["type"], first[large]["handler"]) == ("OrderCancelled", "order/order.place")


@pytest.mark.extended
def test_one_worker_gives_what_two_give(spark: SparkSession, single_lines: str, tmp_path: Path) -> None:
    names: dict[str, Any] = {"tomorrow": _CAUTIOUS, "model": "tests.analytics.tomorrow:by_chance", "seed": 7}
    one = supposed(spark, single_lines, tmp_path / "one", most_parts=1, **names)
    two = supposed(spark, single_lines, tmp_path / "two", **names)
    assert (one.parts, two.parts) == (1, 2)
    assert _all(one.events.drop("position")) == _all(two.events.drop("position"))
    assert "declined" in {row["reason_now"] for row in one.sagas.where("answers.modelled > 0").collect()}


def _all(rows: DataFrame) -> Counter[Row]:
    return Counter(rows.collect())


def without_large_orders(log: Recorded) -> Mapping[str, Ended]:
    """What becomes of orders of one line when large ones are refused: a count of units, in the shelves' order.

    Who was charged then is charged with the same result; who was not, is charged well.
    """
    then, orders = then_by_order(log), {order.order_id: order for order in log.of(OrderSubmitted)}
    on_hand, holds = Counter[str](), set[str]()
    found = dict[str, Ended]()
    for event in log.of(StockReceived, LineRequested, LineReleaseRequested):
        if isinstance(event, StockReceived):
            on_hand[event.sku] += event.quantity
            continue
        (line,) = orders[event.order_id].lines
        cents = line.quantity * line.unit_price_cents
        if cents > LARGE_CENTS:
            found[event.order_id] = Ended(CANCELLED, TOO_LARGE, 0, 0)
        elif isinstance(event, LineReleaseRequested):
            on_hand[event.sku] += event.quantity if event.order_id in holds else 0
        elif line.quantity > on_hand[event.sku]:
            found[event.order_id] = Ended(CANCELLED, "out_of_stock", 0, 0)
        else:
            on_hand[event.sku] -= line.quantity
            holds.add(event.order_id)
            was_declined = then[event.order_id].reason == "declined"
            completed = Ended(COMPLETED, None, cents, line.quantity)
            found[event.order_id] = then[event.order_id] if was_declined else completed
    return found


def test_other_rules_decide_from_a_time_on(spark: SparkSession, shop_log: str, tmp_path: Path) -> None:
    placed = {
        event.order_id: (record.timestamp_ms, event.amount_cents)
        for record, event in recorded(shop_log).events
        if isinstance(event, OrderPlaced)
    }
    times = sorted({at_ms for at_ms, _ in placed.values()})
    assert len(times) > 1
    since = times[len(times) // 2]
    outcome = supposed(spark, shop_log, tmp_path, tomorrow=_CAUTIOUS, since_ms=since)
    refused = {saga for saga, ended in by_saga(outcome).items() if ended.reason == TOO_LARGE}
    assert refused == {order for order, (at_ms, cents) in placed.items() if at_ms >= since and cents > LARGE_CENTS}
    assert any(cents > LARGE_CENTS for at_ms, cents in placed.values() if at_ms < since)


def test_the_command_writes_tables_and_a_page(spark: SparkSession, single_lines: str, tmp_path: Path) -> None:
    some = tmp_path / "orders.txt"
    then = then_by_order(recorded(single_lines))
    keys = sorted(then)[:20]
    other = json.loads(
        OrderSubmitted.model_validate(
            dict(next(each for each in recorded(single_lines).of(OrderSubmitted) if each.order_id == keys[0]))
            | {"country": "Spain"}
        ).model_dump_json()
    )
    some.write_text("\n".join([*keys, json.dumps({"type": "OrderSubmitted", **other})]) + "\n", encoding="utf-8")
    page = tmp_path / "page.html"
    out = said(
        *("whatif", "--log", single_lines, "--out", str(tmp_path), "--orders", str(some), "--report", str(page)),
        *(
            "--sum",
            "money=OrderCompleted.amount_cents:currency",
            "--model",
            "tests.analytics.tomorrow:generous",
            "--json",
        ),
        by=run,
    )
    told = json.loads(out.splitlines()[-1])
    # Units suffice for these few, and what is asked for the first time is never declined; the first has a new question.
    expected = {key: COMPLETED if key == keys[0] or then[key].reason != "declined" else CANCELLED for key in keys}
    ends = {row["saga"]: row["outcome_now"] for row in spark.read.parquet(str(tmp_path / "whatif_sagas")).collect()}
    assert ends == {order: expected.get(order, "open") for order in then}
    assert told["otherwise"] == sum(ends[order] != then[order].outcome for order in then)
    assert told["otherwise"] > len(told["first"]) > 0
    rows = spark.read.parquet(str(tmp_path / "whatif_events")).where("saga = ''")
    assert rows.count() > 0
    changed = _events(spark, tmp_path, keys[0])
    assert ("OrderSubmitted", "changed", "modelled") in changed
    assert ("OrderPlaced", "changed", "decided") in changed
    text = page.read_text(encoding="utf-8")
    assert "What would have been" in text
    assert "order_completed" in text


def _events(spark: SparkSession, place: Path, saga: str) -> set[tuple[str, str, str]]:
    rows: list[Row] = spark.read.parquet(str(place / "whatif_events")).where(f"saga = '{saga}'").collect()
    return {(row["type_now"], row["difference"], row["origin"]) for row in rows}


@pytest.mark.parametrize(
    ("options", "names"),
    [
        (["--sum", "money"], "NAME=TYPE.FIELD"),
        (["--sum", "money=OrderCompleted.cents"], "has no field 'cents'"),
        (["--model", "tests.analytics.tomorrow:TOO_LARGE"], "name a function"),
        (["--model", "tests.analytics.tomorrow:nothing"], "has no 'nothing'"),
        (["--model", "tests.analytics.tomorrow:nobody", "--with", _CAUTIOUS], "the model has no port 'gateway'"),
    ],
)
@pytest.mark.usefixtures("spark")
def test_what_does_not_fit_is_refused_in_one_sentence(
    options: list[str], names: str, single_lines: str, tmp_path: Path
) -> None:
    done = ended("whatif", "--log", single_lines, "--out", str(tmp_path), *options, by=run)
    assert done.returncode == 1
    assert names in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.slow
@pytest.mark.skipif(not REAL_ORDERS.exists(), reason="the real orders are not at hand")
def test_todays_code_gives_no_difference_on_the_real_file(spark: SparkSession, tmp_path: Path) -> None:
    log = ShopLog(tmp_path)
    log.run_import(REAL_ORDERS, "--decline", "0.05", longest_s=1_200)
    outcome = supposed(spark, log.url, tmp_path)
    counted = Counter(
        {row["difference"]: row["count"] for row in outcome.events.groupBy("difference").count().collect()}
    )
    assert counted.total() == counted["unchanged"] > 0
