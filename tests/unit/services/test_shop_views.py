"""What the live views of stock, payment and dispatch make of events; how their tables keep it is tested on a broker."""

import importlib
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from eventlib import Event, Meta
from services.order.events import ProductDelisted, ProductListed
from services.payment.events import PaymentsDegraded
from services.stock.events import LineReserved, ShelfRunningLow, StockReceived
from tests.unit.services import telling as told

if TYPE_CHECKING:
    from eventlib.live import Carried, Origin

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)


class Stream:
    """A stream of what was given."""

    def __init__(self, items: Sequence[object]) -> None:
        self._items = items

    def filter(self, wanted: Callable[[object], bool]) -> "Stream":
        return Stream([item for item in self._items if wanted(item)])

    async def __aiter__(self) -> AsyncIterator[object]:
        for item in self._items:
            yield item


class Rows(dict[str, dict[str, Any]]):
    """Rows in memory, which take everything: for a table, a join, and windows of which there is one."""

    row: dict[str, Any]

    def fold(self, key: str, _origin: "Origin", change: Callable[[Any], Any]) -> "Rows":
        self.row = self[key] = change(self.get(key, {}))
        return self


class JoinedRows(Rows):
    def add(self, key: str, origin: "Origin", change: Callable[[Any], Any]) -> dict[str, Any]:
        return self.fold(key, origin, change).row


class OneWindow(Rows):
    def add(self, key: str, origin: "Origin", change: Callable[[Any], Any]) -> Iterator[tuple[int, dict[str, Any]]]:
        yield 60_000, self.fold(key, origin, change).row


class Carry(list["Carried"]):
    async def send(self, key: str, value: Mapping[str, Any], origin: "Origin") -> None:
        from eventlib.live import Carried

        self.append(Carried(key, value, origin))


class Alerts(list[tuple[Event, str, datetime]]):
    async def tell(self, event: Event, *, about: str, at: datetime) -> None:
        self.append((event, about, at))


def recorded(*events: Event) -> Stream:
    """Return events, each a second after the one before."""

    from eventlib.live.events import Recorded

    return Stream(
        [
            Recorded(event, Meta(f"{n}", topic="t", offset=n, recorded_at=BEGIN + timedelta(seconds=n)))
            for n, event in enumerate(events)
        ]
    )


@pytest.fixture
def shelves(monkeypatch: pytest.MonkeyPatch) -> tuple[Rows, Carry, Alerts]:
    from services.stock import views as stock

    rows, carry, alerts = Rows(), Carry(), Alerts()
    for name, made in (("shelves", rows), ("by_sku", carry), ("alerts", alerts)):
        monkeypatch.setattr(stock, name, made)
    return rows, carry, alerts


async def test_a_shelf_shows_what_is_free_of_what_was_delivered(shelves: tuple[Rows, Carry, Alerts]) -> None:
    from services.stock import views as stock

    rows, carry, alerts = shelves
    listed = ProductListed(sku="A", description="a lamp", unit_price_cents=250, currency="GBP")
    await stock.fill.fun(recorded(listed, StockReceived(sku="A", quantity=100)))
    await stock.pass_on.fun(recorded(told.A_RESERVED, told.A_RESERVED, told.A_RELEASED))
    assert [(each.key, each.value, each.origin.offset) for each in carry] == [
        ("A", {"reserved": 2}, 0),
        ("A", {"reserved": 2}, 1),
        ("A", {"released": 2}, 2),
    ]
    await stock.take.fun(Stream(carry))
    summed = {"received": 100, "reserved": 4, "released": 2, "free": 98}
    assert rows["A"] == {"description": "a lamp", **summed, "low": False}
    assert alerts == []
    await stock.fill.fun(recorded(ProductDelisted(sku="A")))
    assert rows["A"]["description"] is None


@pytest.mark.parametrize(("received", "reserved", "alerted"), [(100, 79, []), (100, 80, [20]), (21, 1, [20])])
async def test_a_shelf_that_runs_low_alerts_once(
    shelves: tuple[Rows, Carry, Alerts], received: int, reserved: int, alerted: list[int]
) -> None:
    from eventlib.live import Carried, Origin
    from services.stock import views as stock

    _, carry, alerts = shelves
    await stock.fill.fun(recorded(StockReceived(sku="A", quantity=received)))
    lines = [LineReserved(order_id="1", line_no=1, sku="A", quantity=units) for units in (reserved, 1)]
    await stock.pass_on.fun(recorded(lines[0]))
    await stock.take.fun(Stream(carry))
    low = [ShelfRunningLow(sku="A", description=None, free=free) for free in alerted]
    assert alerts == [(each, "A/t/0/0", BEGIN) for each in low]
    await stock.take.fun(Stream([Carried("A", {"reserved": 1}, Origin("t/1", 7, 0))]))
    assert len(alerts) == 1, "it was low before"


async def test_a_shelf_that_was_never_filled_does_not_run_low(shelves: tuple[Rows, Carry, Alerts]) -> None:
    from eventlib.live import Carried, Origin
    from services.stock import views as stock

    rows, _, alerts = shelves
    await stock.fill.fun(recorded(ProductListed(sku="A", description="x", unit_price_cents=1, currency="GBP")))
    await stock.take.fun(Stream([Carried("A", {"released": 1}, Origin("t/1", 7, 0))]))
    assert rows["A"]["low"] is False
    assert alerts == []
    await stock.fill.fun(recorded(StockReceived(sku="A", quantity=1)))
    assert [event for event, *_ in alerts] == [ShelfRunningLow(sku="A", description="x", free=2)]


@pytest.fixture
def payments(monkeypatch: pytest.MonkeyPatch) -> tuple[JoinedRows, Carry, OneWindow, Alerts]:
    from services.payment import views as payment

    made = JoinedRows(), Carry(), OneWindow(), Alerts()
    for name, each in zip(("charges", "by_country", "failures", "alerts"), made, strict=True):
        monkeypatch.setattr(payment, name, each)
    return made


async def test_a_payment_is_joined_with_its_reservation_and_counted_by_country(
    payments: tuple[JoinedRows, Carry, OneWindow, Alerts],
) -> None:
    from services.payment import views as payment

    charges, by_country, *_ = payments
    begin_ms = int(BEGIN.timestamp()) * 1000
    await payment.decide.fun(recorded(told.RESERVED, told.TAKEN))
    assert charges["1"] == {"country": "France", "reserved_ms": begin_ms, "taken_ms": begin_ms + 1000}
    charges.clear()
    await payment.decide.fun(recorded(told.CHARGE, told.DECLINED))
    assert charges["1"] == {"country": "France", "failed_ms": begin_ms + 1000}
    counted = [(each.key, each.value, each.origin.offset) for each in by_country]
    assert counted == [("France", {"taken": 1, "failed": 0}, 1), ("France", {"taken": 0, "failed": 1}, 1)]
    charges.clear()
    await payment.decide.fun(recorded(told.DECLINED))
    assert len(by_country) == 2, "the country of an order that was requested before the view began is not known"


@pytest.mark.parametrize("begun", [None, {}])
async def test_a_refusal_that_comes_late_counts_nowhere(
    payments: tuple[JoinedRows, Carry, OneWindow, Alerts], begun: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    from services.payment import views as payment

    monkeypatch.setattr(payment.charges, "add", lambda *_: begun)
    await payment.decide.fun(recorded(told.DECLINED))
    assert payments[1] == []


MINUTE_MS = 60_000


@pytest.mark.parametrize("waited_ms", [-10 * MINUTE_MS, 0, 2_000, 10 * MINUTE_MS])
def test_a_payment_within_ten_minutes_of_its_reservation_is_timed(waited_ms: int) -> None:
    from services.payment import views as payment

    row = {"country": "France", "reserved_ms": 5_000, "taken_ms": 5_000 + waited_ms}
    expected = ("France", {"orders": 1, "waited_ms": waited_ms, "slowest_ms": waited_ms})
    assert payment.time_to_pay(row) == payment.time_to_pay({**row, "failed_ms": 1}) == expected


@pytest.mark.parametrize(
    "row",
    [
        {"country": "France", "reserved_ms": 1},
        {"country": "France", "taken_ms": 1},
        {"country": "France", "reserved_ms": 0, "taken_ms": 10 * MINUTE_MS + 1},
        {"country": "France", "reserved_ms": 10 * MINUTE_MS + 1, "taken_ms": 0},
    ],
)
def test_a_payment_that_came_too_late_or_not_yet_is_not_timed(row: dict[str, Any]) -> None:
    from services.payment import views as payment

    assert payment.time_to_pay(row) is None


def decided(*failed: bool) -> Stream:
    from eventlib.live import Carried, Origin

    value = {True: {"taken": 0, "failed": 1}, False: {"taken": 1, "failed": 0}}
    return Stream([Carried("France", value[each], Origin("payments/2", n, n * 1000)) for n, each in enumerate(failed)])


@pytest.mark.parametrize(
    ("failed", "alerted_by"),
    [
        ([True] * 9, None),
        ([True] * 10, 9),
        ([True] * 12, 9),
        ([True, *[False] * 9], None),
        ([True, True, *[False] * 8], 9),
        ([*[False] * 39, *[True] * 9], None),
        ([*[False] * 40, *[True] * 10], 49),
        ([*[False] * 81, *[True] * 20], None),
    ],
)
async def test_a_country_where_a_fifth_of_ten_payments_or_more_fail_alerts_once(
    payments: tuple[JoinedRows, Carry, OneWindow, Alerts], failed: list[bool], alerted_by: int | None
) -> None:
    from services.payment import views as payment

    _, _, failures, alerts = payments
    await payment.rate_failures.fun(decided(*failed))
    assert failures["France"]["failed"] == sum(failed)
    assert failures["France"]["taken"] == len(failed) - sum(failed)
    if alerted_by is None:
        assert alerts == []
        return
    until_then = failed[: alerted_by + 1]
    at = datetime.fromtimestamp(alerted_by, UTC)
    degraded = PaymentsDegraded(
        country="France",
        since=datetime.fromtimestamp(60, UTC),
        until=datetime.fromtimestamp(360, UTC),
        taken=len(until_then) - sum(until_then),
        failed=sum(until_then),
    )
    assert alerts == [(degraded, "France/60000", at)]


@pytest.mark.parametrize(
    ("took_ms", "within"),
    [(1000, (1, 1, 1, 1)), (1001, (0, 1, 1, 1)), (10_001, (0, 0, 1, 1)), (60_001, (0, 0, 0, 1)), (3_600_001, (0,) * 4)],
)
def test_a_dispatched_order_is_timed(took_ms: int, within: tuple[int, ...]) -> None:
    from services.dispatch import views as dispatch

    row = {"country": "France", "placed_ms": 7, "dispatched_ms": 7 + took_ms}
    seconds = (1, 10, 60, 3600)
    sums = {"orders": 1, "took_ms": took_ms, "slowest_ms": took_ms}
    sums |= {f"within_{each}_s": count for each, count in zip(seconds, within, strict=True)}
    assert dispatch.time_to_dispatch(row) == dispatch.time_to_dispatch({**row, "more": 1}) == ("France", sums)


@pytest.mark.parametrize("known", ["placed_ms", "dispatched_ms"])
def test_an_order_of_which_one_time_is_known_is_not_timed(known: str) -> None:
    from services.dispatch import views as dispatch

    assert dispatch.time_to_dispatch({"country": "France", known: 1}) is None


async def test_an_order_is_joined_with_its_dispatch(monkeypatch: pytest.MonkeyPatch) -> None:
    from services.dispatch import views as dispatch

    rows = JoinedRows()
    monkeypatch.setattr(dispatch, "shipping", rows)
    await dispatch.ship.fun(recorded(told.PLACED, told.DISPATCHED))
    begin_ms = int(BEGIN.timestamp()) * 1000
    assert rows["1"] == {"country": "France", "placed_ms": begin_ms, "dispatched_ms": begin_ms + 1000}


@pytest.mark.parametrize(
    ("service", "table", "days", "sources"), [("dispatch", "shipping", 30, 2), ("payment", "charges", 7, 2)]
)
def test_a_join_waits_for_the_later_event_as_long_as_orders_take_and_keeps_its_row_a_week(
    service: str, table: str, days: int, sources: int
) -> None:
    from eventlib.live import Keeping

    joined = getattr(importlib.import_module(f"services.{service}.views"), table)
    assert joined._keeping == Keeping(timedelta(days=days), timedelta(days=7), sources)  # noqa: SLF001  a worker alone would show it, after weeks
